package failpoint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// used returns the names that the program's sources hand to Hit. Each begins with its package.
func used(t *testing.T) []string {
	t.Helper()
	var names []string
	set := token.NewFileSet()
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == ".git" || d.Name() == "build") {
			return fs.SkipDir
		}
		if filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			sel, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || sel.Sel.Name != "Hit" {
				return true
			}
			if x, ok := sel.X.(*ast.Ident); !ok || x.Name != "failpoint" {
				return true
			}
			lit, ok := call.Args[0].(*ast.BasicLit)
			if !ok {
				t.Errorf("%s: the name of a point is not written out", set.Position(call.Pos()))
				return true
			}
			name, err := strconv.Unquote(lit.Value)
			if err != nil {
				t.Error(err)
			}
			if owner, _, _ := strings.Cut(name, "/"); owner != filepath.Base(filepath.Dir(path)) {
				t.Errorf("%s: the point %s is not in that package", set.Position(call.Pos()), name)
			}
			names = append(names, name)
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	return names
}

func TestNamesMatchUses(t *testing.T) {
	if !slices.IsSorted(Names) {
		t.Error("Names is not sorted")
	}
	used := used(t)
	for i, name := range used {
		if i > 0 && name == used[i-1] {
			t.Errorf("%q is used twice", name)
		}
		if !slices.Contains(Names, name) {
			t.Errorf("%q is not in Names", name)
		}
	}
	for _, name := range Names {
		if !slices.Contains(used, name) {
			t.Errorf("%q is not used", name)
		}
	}
	if n := len(slices.Compact(slices.Clone(Names))); n != len(Names) {
		t.Errorf("Names has %d names, %d of them different", len(Names), n)
	}
}
