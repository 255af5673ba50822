package metrics

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/helmdeck/repos/internal/disk"
)

// ofHistogram matches the ends of the names of a histogram's series.
var ofHistogram = regexp.MustCompile(`_(bucket|sum|count)$`)

// TestRulesNameMetrics checks that the alert rules and the dashboard use metrics, labels and values of labels that exist:
// a rule with a misspelled one never fires, and a panel stays empty.
func TestRulesNameMetrics(t *testing.T) {
	h, _ := handler(true, func() Figures {
		f := sample()
		f.Disk["checkpoint"], f.Disk["workspace"] = disk.Size{}, disk.Size{}
		return f
	})
	families := scrape(t, h)
	values := make(map[string]bool) // as label=value
	labels := map[string]bool{"job": true, "instance": true, "le": true}
	for _, f := range families {
		for _, m := range f.Metric {
			for _, l := range m.Label {
				values[l.GetName()+"="+l.GetValue()] = true
				labels[l.GetName()] = true
			}
		}
	}
	for _, file := range []string{"helmdeck-repos.rules.yml", "helmdeck-repos.test.yml", "helmdeck-repos.dashboard.json"} {
		data, err := os.ReadFile("../../../deploy/prometheus/" + file)
		if err != nil {
			t.Fatal(err)
		}
		text := strings.ReplaceAll(string(data), `\"`, `"`) // in JSON
		names := regexp.MustCompile(`\b(helmdeck_repos|process|go|promhttp)_\w+`).FindAllString(text, -1)
		if len(names) == 0 {
			t.Errorf("%s names no metric", file)
		}
		for _, name := range names {
			if families[name] == nil && families[ofHistogram.ReplaceAllString(name, "")] == nil {
				t.Errorf("%s: there is no metric %s", file, name)
			}
		}
		for _, m := range regexp.MustCompile(`\b(?:by|on) ?\(([^)]*)\)`).FindAllStringSubmatch(text, -1) {
			for label := range strings.SplitSeq(m[1], ",") {
				if !labels[strings.TrimSpace(label)] {
					t.Errorf("%s: no metric has the label %q", file, label)
				}
			}
		}
		for _, m := range regexp.MustCompile(`\b(result|class|limit|reason|kind|via|command|cause)(?:=|!=|=~|!~)"([^"]*)"`).FindAllStringSubmatch(text, -1) {
			for value := range strings.SplitSeq(m[2], "|") {
				if !values[m[1]+"="+value] {
					t.Errorf("%s: no metric has %s=%q", file, m[1], value)
				}
			}
		}
	}
}
