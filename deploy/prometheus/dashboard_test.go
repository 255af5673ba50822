package prometheus

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/helmdeck/repos/tests/promtool"
)

const dashboard = "helmdeck-repos.dashboard.json"

// panel is what is checked of a panel of the dashboard.
type panel struct {
	ID          int
	Type, Title string
	Description string
	Datasource  struct{ UID string }
	GridPos     struct{ X, Y, W, H int }
	Targets     []struct{ RefID, Expr string }
}

// TestDashboard checks that Grafana can import the dashboard: each panel has its own number and place, takes its data from
// the data source that the user chooses, and says what it shows; and Prometheus reads each expression. internal/admin/metrics
// checks that the metrics exist.
func TestDashboard(t *testing.T) {
	var d struct {
		UID, Title string
		Panels     []panel
		Templating struct {
			List []struct{ Name, Type, Query string }
		}
	}
	if err := json.Unmarshal([]byte(read(t, dashboard)), &d); err != nil {
		t.Fatal(err)
	}
	if d.UID == "" || d.Title == "" || len(d.Panels) < 10 || len(d.Templating.List) != 2 || d.Templating.List[0].Type != "datasource" {
		t.Fatalf("the dashboard is incomplete: %+v", d)
	}
	taken := make(map[[2]int]int) // by column and line
	ids := make(map[int]bool)
	var rules strings.Builder
	rules.WriteString("groups:\n  - name: dashboard\n    rules:\n")
	for _, p := range d.Panels {
		if ids[p.ID] {
			t.Errorf("two panels have the number %d", p.ID)
		}
		ids[p.ID] = true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other := taken[[2]int{x, y}]; other != 0 || x >= 24 {
					t.Fatalf("%q does not fit at %d, %d: panel %d is there, or the line ends", p.Title, x, y, other)
				}
				taken[[2]int{x, y}] = p.ID
			}
		}
		if p.Type == "row" {
			continue
		}
		if p.Description == "" || p.Datasource.UID != "$datasource" || len(p.Targets) == 0 {
			t.Errorf("%q has the description %q, the data source %q and %d expressions", p.Title, p.Description, p.Datasource.UID, len(p.Targets))
		}
		for _, target := range p.Targets {
			expr := strings.NewReplacer("$__rate_interval", "5m", "$instance", ".*").Replace(target.Expr)
			if strings.Contains(expr, "$") || !strings.Contains(expr, `instance=~".*"`) {
				t.Errorf("%q: %s has an unknown variable, or shows other instances than the chosen ones", p.Title, target.Expr)
			}
			fmt.Fprintf(&rules, "      - {record: 'panel:%d:%s', expr: %q}\n", p.ID, target.RefID, expr)
		}
	}
	file := filepath.Join(t.TempDir(), "rules.yml")
	if err := os.WriteFile(file, []byte(rules.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	promtool.Run(t, "", "check", "rules", file)
}
