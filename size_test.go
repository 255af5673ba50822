package repos_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The sizes beyond which code gets hard to enter. They are reasons to look for a seam.
const (
	maxPackageLines  = 2500 // without tests
	maxFileLines     = 400
	maxFunctionLines = 80
	maxMethods       = 40
)

// larger has what exceeds them nevertheless: packages, files, functions and types. A number may
// only become smaller, and nothing is added here.
var larger = map[string]int{
	"cli/internal/commands/commands_test.go":   409,
	"cmd/bench":                                3793,
	"internal/admin Config":                    41,
	"internal/audit/audit_test.go":             597,
	"internal/clone Clone":                     43,
	"internal/git Git":                         64,
	"internal/gitserver/hostile moduleCases()": 110,
	"internal/remote Remote":                   51,
	"internal/removal/removal_test.go":         463,
	"internal/tree Collection":                 43,
	"internal/verbs Volumes":                   44,
	"internal/workspace Manager":               49,
	"janitor/property_test.go":                 405,
	"plugin loadSettings()":                    85,
	"tests/crash/scenario_test.go":             420,
	"tests/doctor/doctor_test.go":              475,
}

// sizes has the sizes of packages, files, functions (lines) and types (methods), by name.
type sizes map[string]size

type size struct {
	n, most int
	of      string // lines or methods
}

// add counts a file. Tests count as files alone, because the functions of some are tables.
func (s sizes) add(name string, data []byte) error {
	count := func(name string, n, most int, of string) { s[name] = size{s[name].n + n, most, of} }
	lines, dir := bytes.Count(data, []byte("\n")), path.Dir(name)
	count(name, lines, maxFileLines, "lines")
	if strings.HasSuffix(name, "_test.go") {
		return nil
	}
	count(dir, lines, maxPackageLines, "lines")
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, name, data, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	for _, decl := range f.Decls {
		fn, ok := decl.(*ast.FuncDecl)
		if !ok {
			continue
		}
		id := fn.Name.Name
		if fn.Recv != nil {
			of := receiver(fn.Recv.List[0].Type)
			count(dir+" "+of, 1, maxMethods, "methods")
			id = of + "." + id
		}
		count(dir+" "+id+"()", set.Position(fn.End()).Line-set.Position(fn.Pos()).Line+1, maxFunctionLines, "lines")
	}
	return nil
}

// receiver returns the name of a receiver's type.
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return "?"
}

// tooLarge describes what is larger than it may be, and which exceptions are not needed.
func (s sizes) tooLarge(larger map[string]int) (list []string) {
	for _, name := range slices.Sorted(maps.Keys(s)) {
		z := s[name]
		if most := max(z.most, larger[name]); z.n > most {
			list = append(list, fmt.Sprintf("%s has %d %s, want at most %d", name, z.n, z.of, most))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(larger)) {
		if z := s[name]; z.n <= z.most {
			list = append(list, fmt.Sprintf("%s has %d %s: it needs no exception any more", name, z.n, z.of))
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
		if err := s.add(name, data); err != nil {
			t.Fatal(err)
		}
	}
	for _, text := range s.tooLarge(larger) {
		t.Error(text)
	}
}

// TestSizesAreFound checks that TestSizes finds each thing that is too large.
func TestSizesAreFound(t *testing.T) {
	lines := func(n int) string { return strings.Repeat("//\n", n) }
	methods := func(n int, of string) (text string) {
		for i := range n {
			text += fmt.Sprintf("func (%s) m%d() {}\n", of, i)
		}
		return text
	}
	many := make(map[string]string)
	for i := range 7 {
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
		{"package", many, nil, "p has 2800 lines"},
		{"function", map[string]string{"p/f.go": "func f() {\n" + lines(maxFunctionLines-1) + "}\n"}, nil, "p f() has 81 lines"},
		{"methods", map[string]string{"p/f.go": methods(20, "T"), "p/g.go": methods(21, "*T")}, nil, "p T has 41 methods"},
		{"generic", map[string]string{"p/f.go": methods(41, "t *T[K]")}, nil, "p T has 41 methods"},
		{"test's functions", map[string]string{"p/f_test.go": "func f() {\n" + lines(maxFunctionLines) + "}\n" + methods(41, "T")}, nil, ""},
		{"types", map[string]string{"p/f.go": methods(40, "T") + methods(40, "U")}, nil, ""},
	} {
		s := make(sizes)
		for name, text := range tt.files {
			if err := s.add(name, []byte("package p\n"+text)); err != nil {
				t.Fatal(err)
			}
		}
		got := strings.Join(s.tooLarge(tt.larger), "\n")
		if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%s: found %q, want %q", tt.name, got, tt.want)
		}
	}
}
