package built

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestFiles compares the files of the programs with those that the go command lists.
func TestFiles(t *testing.T) {
	root, err := findRoot()
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"plugin", "cli"} {
		s := sources{root: root, packages: make(map[string]bool)}
		if err := s.link(dir); err != nil {
			t.Fatal(err)
		}
		const format = `{{if and .Module (not .Standard)}}{{$p := .}}{{range .GoFiles}}{{$p.Dir}}/{{.}}
{{end}}{{range .SFiles}}{{$p.Dir}}/{{.}}
{{end}}{{range .EmbedFiles}}{{$p.Dir}}/{{.}}
{{end}}{{end}}`
		cmd := exec.Command("go", "list", "-deps", "-f", format, ".")
		cmd.Dir, cmd.Env = filepath.Join(root, dir), append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		var want []string
		for name := range strings.Lines(string(out)) {
			if below, ours := strings.CutPrefix(strings.TrimSpace(name), root+"/"); ours {
				want = append(want, below)
			}
		}
		slices.Sort(want)
		slices.Sort(s.files)
		if !slices.Equal(s.files, want) || len(want) < 30 {
			t.Errorf("%s: got %d files, want %d:\n%q\n%q", dir, len(s.files), len(want), s.files, want)
		}
	}
}

// TestCheck changes a small repository after its plugin was made.
func TestCheck(t *testing.T) {
	files := map[string]string{
		"go.mod": "module github.com/helmdeck/repos\n", "go.sum": "", "config.json": "{}",
		"rootfs/assemble": "", "rootfs/build": "", "rootfs/apt.sh": "", "rootfs/mirror.sh": "", "rootfs/needed/main.go": "",
		"rootfs/lock." + runtime.GOARCH: "", "rootfs/install": "",
		"plugin/main.go":      "package main\n\nimport _ \"github.com/helmdeck/repos/api\"\n",
		"plugin/main_test.go": "package main\n",
		"api/doc.go":          "package api\n\nimport _ \"embed\"\n\n//go:embed page.txt\nvar _ string\n",
		"api/page.txt":        "",
		"api/darwin.go":       "//go:build darwin\n\npackage api\n",
		"tests/help.go":       "package tests\n",
		"docs/design.md":      "",
		"build/plugin/rootfs": "", "build/docker-repos": "",
	}
	write := func(name, text string) func(root string) error {
		return func(root string) error { return os.WriteFile(filepath.Join(root, name), []byte(text), 0o644) }
	}
	remove := func(name string) func(root string) error {
		return func(root string) error { return os.RemoveAll(filepath.Join(root, name)) }
	}
	for _, c := range []struct {
		name   string
		change func(root string) error
		old    bool
	}{
		{"nothing", func(string) error { return nil }, false},
		{"a time", func(root string) error {
			return os.Chtimes(filepath.Join(root, "plugin/main.go"), time.Time{}, time.Now().Add(time.Hour))
		}, false},
		{"a test", write("plugin/main_test.go", "package main // changed\n"), false},
		{"a new test", write("plugin/more_test.go", "package main\n"), false},
		{"a page", write("docs/design.md", "changed"), false},
		{"a package that is not linked", write("tests/help.go", "package tests // changed\n"), false},
		{"a file for another system", write("api/darwin.go", "//go:build darwin\n\npackage api // changed\n"), false},
		{"another script", write("rootfs/install", "changed"), false},
		{"the program", write("plugin/main.go", "package main\n"), true},
		{"a new file", write("api/more.go", "package api\n"), true},
		{"a package", write("api/doc.go", "package api\n"), true},
		{"an embedded file", write("api/page.txt", "changed"), true},
		{"a module's version", write("go.sum", "changed"), true},
		{"the configuration", write("config.json", "{ }"), true},
		{"a locked version", write("rootfs/lock."+runtime.GOARCH, "changed"), true},
		{"no plugin", remove("build/plugin"), true},
		{"no hash", remove("build/plugin.sources"), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := t.TempDir()
			for name, text := range files {
				if err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := write(name, text)(root); err != nil {
					t.Fatal(err)
				}
			}
			made, err := Sources(root, Plugin)
			if err != nil {
				t.Fatal(err)
			}
			if err := write("build/plugin.sources", made)(root); err != nil {
				t.Fatal(err)
			}
			if err := c.change(root); err != nil {
				t.Fatal(err)
			}
			err = check(root, []string{Plugin})
			if (err != nil) != c.old || c.old && !strings.HasSuffix(err.Error(), ": run make plugin cli") {
				t.Errorf("got %v, want an error: %v", err, c.old)
			}
		})
	}
}
