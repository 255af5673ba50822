// Package prometheus tests the alert rules for Prometheus and the dashboard for Grafana that are in this directory.
package prometheus

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/helmdeck/repos/tests/promtool"
)

const (
	rules = "helmdeck-repos.rules.yml"
	cases = "helmdeck-repos.test.yml"
)

func TestRules(t *testing.T) {
	promtool.Run(t, "", "check", "config", "prometheus.yml")
	promtool.Run(t, "", "check", "rules", rules)
	promtool.Run(t, "", "test", "rules", cases)
}

// TestEachAlertIsTested checks that the cases make each alert fire, and that it is silent at
// another time of the same case. A first case, of a healthy plugin, is about all alerts.
func TestEachAlertIsTested(t *testing.T) {
	alerts := regexp.MustCompile(`(?m)^ +- alert: (\w+)$`).FindAllStringSubmatch(read(t, rules), -1)
	if len(alerts) == 0 {
		t.Fatal("no alerts")
	}
	list := strings.Split(read(t, cases), "\n  - name: ")
	if !strings.HasPrefix(list[1], "healthy\n") || !strings.Contains(list[1], `{expr: 'ALERTS{alertstate="firing"}', eval_time: 110m, exp_samples: []}`) {
		t.Error("the first case is not that of a healthy plugin, without alerts")
	}
	for _, a := range alerts {
		fires, silent := false, false
		for _, c := range list[2:] {
			if !strings.HasPrefix(c, a[1]+"\n") && !strings.HasPrefix(c, a[1]+", ") {
				continue
			}
			fires = fires || strings.Contains(c, `- {labels: 'ALERTS{alertname="`+a[1]+`", alertstate="firing"`)
			silent = silent || strings.Contains(c, `ALERTS{alertname="`+a[1]+`", alertstate="firing"}', eval_time:`) && strings.Contains(c, "exp_samples: []")
		}
		if !fires || !silent {
			t.Errorf("%s: a case makes it fire: %v; and it is silent before: %v", a[1], fires, silent)
		}
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
