package overlay

import (
	"os"
	"path/filepath"
	"testing"
)

func TestView(t *testing.T) {
	s := newSpec(t)
	mustMount(t, s)
	write(t, filepath.Join(s.Target, "new"), "upper")
	if err := os.Remove(filepath.Join(s.Target, "file")); err != nil {
		t.Fatal(err)
	}
	mustDetach(t, s.Target)
	layers := Spec{Lower: []string{s.Upper, s.Lower[0]}}
	for name, view := range map[string]func() (*os.File, error){
		"descriptors": func() (*os.File, error) { return View(layers) },
		"strings":     func() (*os.File, error) { return viewStrings(layers) },
	} {
		t.Run(name, func(t *testing.T) { checkView(t, s, view) })
	}
	if _, err := View(Spec{Lower: s.Lower}); err == nil {
		t.Error("one layer: no error")
	}
}

func checkView(t *testing.T, s Spec, view func() (*os.File, error)) {
	t.Helper()
	v, err := view()
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(procPath(int(v.Fd())))
	if err != nil || len(entries) != 2 || entries[0].Name() != "dir" || entries[1].Name() != "new" {
		t.Errorf("it has %v, %v", entries, err)
	}
	if err := os.WriteFile(procPath(int(v.Fd()))+"/more", nil, 0o600); err == nil {
		t.Error("it can be written to")
	}
	if points, err := Mounts(filepath.Dir(s.Upper)); err != nil || len(points) != 0 {
		t.Errorf("mounted: %v, %v", points, err)
	}
	if err := v.Close(); err != nil {
		t.Error(err)
	}
}

// TestRedirects renames a lower directory without metacopy.
func TestRedirects(t *testing.T) {
	s := newSpec(t)
	s.Redirects = true
	mustMount(t, s)
	if err := os.Rename(filepath.Join(s.Target, "dir"), filepath.Join(s.Target, "moved")); err != nil {
		t.Error(err)
	}
	if m := info(t, s.Target); hasOption(m.VFSOptions, "metacopy=on") {
		t.Errorf("options %q", m.VFSOptions)
	}
}
