package cache

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/helmdeck/repos/api"
)

// TestVariablesAreDocumented: the table of docs/how-to/caches.md and the example for compose
// have the variables of env, for a volume at /w.
func TestVariablesAreDocumented(t *testing.T) {
	t.Parallel()
	want := make(map[string]string)
	for _, v := range api.CacheVariables("/w") { // TestVariables compares them with env
		want[v.Name] = v.Value
	}
	text := func(path string) string {
		data, err := os.ReadFile(filepath.Join("../../..", path))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	table, example := make(map[string]string), make(map[string]string)
	quoted := regexp.MustCompile("`([^`]+)`")
	_, rows, _ := strings.Cut(text("docs/how-to/caches.md"), "| for | variable | value |\n")
	for row := range strings.Lines(rows) {
		cells := strings.Split(row, "|")
		if len(cells) != 5 {
			break // the table has ended
		}
		names, values := quoted.FindAllStringSubmatch(cells[2], -1), quoted.FindAllStringSubmatch(cells[3], -1)
		for i, name := range names {
			table[name[1]] = values[min(i, len(values)-1)][1]
		}
	}
	_, environment, _ := strings.Cut(text("examples/compose.yaml"), "    environment:")
	for line := range strings.Lines(environment) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ": "); ok && strings.HasPrefix(line, "      ") {
			example[name] = strings.Trim(value, `"`)
		} else if strings.TrimSpace(line) == "" {
			break
		}
	}
	if !maps.Equal(table, want) {
		t.Errorf("docs/how-to/caches.md says\n%v, env says\n%v", table, want)
	}
	if !maps.Equal(example, want) {
		t.Errorf("the example says\n%v, env says\n%v", example, want)
	}
}

// TestVariables checks that api.CacheVariables has what the script env sets.
func TestVariables(t *testing.T) {
	sh := exec.Command("sh", "-c", string(Env)+"exec env")
	sh.Env = []string{"HDCACHE=/w/" + api.CacheDir, "PATH=" + os.Getenv("PATH")}
	out, err := sh.Output()
	if err != nil {
		t.Fatal(err)
	}
	var got, want []string
	for line := range strings.Lines(string(out)) {
		name, _, _ := strings.Cut(line, "=")
		if !slices.Contains([]string{"HDCACHE", "PATH", "PWD", "SHLVL", "OLDPWD", "_"}, name) {
			got = append(got, strings.TrimSuffix(line, "\n"))
		}
	}
	for _, v := range api.CacheVariables("/w") {
		want = append(want, v.Name+"="+v.Value)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("the script sets\n%q, CacheVariables has\n%q", got, want)
	}
}
