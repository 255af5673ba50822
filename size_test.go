package repos_test

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The sizes beyond which code gets hard to enter, in lines. They are reasons to look for a seam.
const (
	maxPackageLines = 4000 // without tests
	maxFileLines    = 400
)

// larger has what exceeds them nevertheless. A number may only become smaller, and nothing is added here.
var larger = map[string]int{
	"internal/admin/audit/audit_test.go":     597,
	"internal/verbs/removal/removal_test.go": 437,
}

// sizes has the lines of packages and files, by name.
type sizes map[string]size

type size struct{ n, most int }

// add counts a file. The lines of tests count for their file alone.
func (s sizes) add(name string, data []byte) {
	lines := bytes.Count(data, []byte("\n"))
	s[name] = size{lines, maxFileLines}
	if !strings.HasSuffix(name, "_test.go") {
		dir := path.Dir(name)
		s[dir] = size{s[dir].n + lines, maxPackageLines}
	}
}

// tooLarge describes what is larger than it may be, and which exceptions are not needed.
func (s sizes) tooLarge(larger map[string]int) (list []string) {
	for _, name := range slices.Sorted(maps.Keys(s)) {
		z := s[name]
		if most := max(z.most, larger[name]); z.n > most {
			list = append(list, fmt.Sprintf("%s has %d lines, want at most %d", name, z.n, most))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(larger)) {
		if z := s[name]; z.n <= z.most {
			list = append(list, fmt.Sprintf("%s has %d lines: it needs no exception any more", name, z.n))
		}
	}
	return list
}

func TestSizes(t *testing.T) {
	s := make(sizes)
	for _, name := range files(t) {
		if filepath.Ext(name) != ".go" {
			continue
		}
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		s.add(name, data)
	}
	for _, text := range s.tooLarge(larger) {
		t.Error(text)
	}
}

// TestSizesAreFound checks that TestSizes finds each thing that is too large.
func TestSizesAreFound(t *testing.T) {
	lines := func(n int) string { return strings.Repeat("//\n", n) }
	many := make(map[string]string)
	for i := range 11 {
		many[fmt.Sprintf("p/f%d.go", i)] = lines(maxFileLines - 1)
	}
	for _, tt := range []struct {
		name   string
		files  map[string]string
		larger map[string]int
		want   string // empty: nothing is found
	}{
		{"small", map[string]string{"p/f.go": lines(maxFileLines - 1)}, nil, ""},
		{"file", map[string]string{"p/f.go": lines(maxFileLines)}, nil, "p/f.go has 401 lines"},
		{"test", map[string]string{"p/f_test.go": lines(maxFileLines)}, nil, "p/f_test.go has 401 lines"},
		{"exception", map[string]string{"p/f.go": lines(maxFileLines)}, map[string]int{"p/f.go": 401}, ""},
		{"exception that grows", map[string]string{"p/f.go": lines(401)}, map[string]int{"p/f.go": 401}, "p/f.go has 402 lines"},
		{"needless exception", map[string]string{"p/f.go": lines(1)}, map[string]int{"p/f.go": 401}, "needs no exception"},
		{"exception of nothing", nil, map[string]int{"p/f.go": 401}, "needs no exception"},
		{"package", many, nil, "p has 4400 lines"},
	} {
		s := make(sizes)
		for name, text := range tt.files {
			s.add(name, []byte("package p\n"+text))
		}
		got := strings.Join(s.tooLarge(tt.larger), "\n")
		if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%s: found %q, want %q", tt.name, got, tt.want)
		}
	}
}
