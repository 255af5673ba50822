package repos_test

import (
	"go/ast"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestStatusIsDocumented checks that docs/reference/volume-inspect.md has the fields of Status and of
// .git/helmdeck.json, and no others.
func TestStatusIsDocumented(t *testing.T) {
	var status, about []string
	for _, s := range sources(t) {
		if s.dir == "internal/verbs" || s.dir == "driver" {
			status = append(status, s.statusFields()...)
		}
		if s.path == "internal/workspace/upper/about.go" {
			about = jsonFields(s.File, "about")
		}
	}
	var page page
	for _, p := range pages(t) {
		if p.name == "docs/reference/volume-inspect.md" {
			page = p
		}
	}
	for _, c := range []struct {
		column string
		fields []string
	}{{"field", status}, {"name", about}} {
		documented := page.cells(c.column)
		if len(c.fields) < 9 || len(documented) < 9 {
			t.Fatalf("%d fields, %d on the page", len(c.fields), len(documented))
		}
		for _, f := range missing(slices.Values(c.fields), documented) {
			t.Errorf("%s lacks %q", page.name, f)
		}
		for _, f := range missing(slices.Values(documented), c.fields) {
			t.Errorf("%s has %q, which nothing sets", page.name, f)
		}
	}
}

// statusFields returns the keys that a file gives to a map with the name status: in a literal, by an assignment, or
// for a sum of sizes.
func (s source) statusFields() (fields []string) {
	add := func(e ast.Expr, suffixes ...string) {
		if lit, ok := e.(*ast.BasicLit); ok {
			name, _ := strconv.Unquote(lit.Value)
			for _, suffix := range suffixes {
				fields = append(fields, name+suffix)
			}
		}
	}
	isStatus := func(e ast.Expr) bool { id, ok := e.(*ast.Ident); return ok && id.Name == "status" }
	ast.Inspect(s.File, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.IndexExpr:
			if isStatus(n.X) {
				add(n.Index, "")
			}
		case *ast.AssignStmt:
			if lit, ok := n.Rhs[0].(*ast.CompositeLit); ok && isStatus(n.Lhs[0]) {
				for _, e := range lit.Elts {
					add(e.(*ast.KeyValueExpr).Key, "")
				}
			}
		case *ast.CallExpr:
			if f, ok := n.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == "show" && len(n.Args) == 2 && isStatus(n.Args[0]) {
				add(n.Args[1], "_bytes", "_measured_at")
			}
		}
		return true
	})
	return fields
}

// jsonFields returns the JSON names of a struct's fields.
func jsonFields(f *ast.File, name string) (fields []string) {
	ast.Inspect(f, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok || spec.Name.Name != name {
			return true
		}
		for _, field := range spec.Type.(*ast.StructType).Fields.List {
			tag, _ := strconv.Unquote(field.Tag.Value)
			json, _, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ",")
			fields = append(fields, json)
		}
		return false
	})
	return fields
}
