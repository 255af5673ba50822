package overlay

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
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

// TestViewOfMany: a chain of layers as long as most can be viewed on every kernel, and the working
// directory of other threads stays.
func TestViewOfMany(t *testing.T) {
	before, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	var s Spec
	for i := range 45 {
		dir := filepath.Join(t.TempDir(), strings.Repeat("long", 10))
		mkdir(t, dir)
		write(t, filepath.Join(dir, strconv.Itoa(i)), "x")
		s.Lower = append(s.Lower, dir)
	}
	for name, view := range map[string]func(Spec) (*os.File, error){"descriptors": View, "strings": viewStrings} {
		v, err := view(s)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if entries, err := os.ReadDir(procPath(int(v.Fd()))); err != nil || len(entries) != len(s.Lower) {
			t.Errorf("%s: %d entries, %v", name, len(entries), err)
		}
		v.Close()
	}
	for range 5 {
		s.Lower = append(s.Lower, s.Lower...)
	}
	if _, err := viewStrings(s); err == nil || !strings.Contains(err.Error(), "a newer one") {
		t.Errorf("too many: %v", err)
	}
	if after, err := os.Getwd(); err != nil || after != before {
		t.Errorf("the working directory is %q, %v", after, err)
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
