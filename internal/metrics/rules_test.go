package metrics

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/helmdeck/repos/internal/disk"
)

// TestRulesNameMetrics checks that the alert rules use metrics and values of labels that exist: a
// rule with a misspelled one never fires.
func TestRulesNameMetrics(t *testing.T) {
	h, _ := handler(true, func() Figures {
		f := sample()
		f.Disk["discard"], f.Disk["workspace"] = disk.Size{}, disk.Size{}
		return f
	})
	families := scrape(t, h)
	values := make(map[string]bool) // as label=value
	for _, f := range families {
		for _, m := range f.Metric {
			for _, l := range m.Label {
				values[l.GetName()+"="+l.GetValue()] = true
			}
		}
	}
	for _, file := range []string{"helmdeck-repos.rules.yml", "helmdeck-repos.test.yml"} {
		data, err := os.ReadFile("../../deploy/prometheus/" + file)
		if err != nil {
			t.Fatal(err)
		}
		names := regexp.MustCompile(`\b(helmdeck_repos|process|go|promhttp)_\w+`).FindAllString(string(data), -1)
		if len(names) == 0 {
			t.Errorf("%s names no metric", file)
		}
		for _, name := range names {
			if families[name] == nil && families[strings.TrimSuffix(name, "_bucket")] == nil {
				t.Errorf("%s: there is no metric %s", file, name)
			}
		}
		for _, m := range regexp.MustCompile(`\b(result|class|limit|reason|kind|via|command|cause)(?:=|!=|=~|!~)"([^"]*)"`).FindAllStringSubmatch(string(data), -1) {
			for value := range strings.SplitSeq(m[2], "|") {
				if !values[m[1]+"="+value] {
					t.Errorf("%s: no metric has %s=%q", file, m[1], value)
				}
			}
		}
	}
}
