package gitindex

import (
	"path"
	"slices"
	"strings"
)

// Cone selects files as git's cone mode does: all that is below the directories, and the
// files directly in each of their parent directories. Nil selects everything.
type Cone []string

// Roots returns the directories that are not below another one, sorted.
func (c Cone) Roots() []string {
	var roots []string
	for _, dir := range slices.Sorted(slices.Values(c)) {
		if !slices.ContainsFunc(roots, func(r string) bool { return below(dir, r) }) {
			roots = append(roots, dir)
		}
	}
	return roots
}

// below reports whether name is dir, or below it.
func below(name, dir string) bool {
	rest, ok := strings.CutPrefix(name, dir)
	return ok && (rest == "" || rest[0] == '/')
}

// Parents returns the directories above the roots, sorted, without the top.
func (c Cone) Parents() []string {
	var parents []string
	for _, root := range c.Roots() {
		for dir := path.Dir(root); dir != "."; dir = path.Dir(dir) {
			parents = append(parents, dir)
		}
	}
	slices.Sort(parents)
	return slices.Compact(parents)
}

// Patterns returns the content of info/sparse-checkout, as git sparse-checkout set writes
// it. No directory may contain a character that is special in patterns.
func (c Cone) Patterns() []byte {
	var b strings.Builder
	b.WriteString("/*\n!/*/\n")
	for _, dir := range c.Parents() {
		b.WriteString("/" + dir + "/\n!/" + dir + "/*/\n")
	}
	for _, dir := range c.Roots() {
		b.WriteString("/" + dir + "/\n")
	}
	return []byte(b.String())
}

// Selector returns a function that reports whether a file is selected.
func (c Cone) Selector() func(file string) bool {
	if c == nil {
		return func(string) bool { return true }
	}
	roots, parents := c.Roots(), c.Parents()
	return func(file string) bool {
		dir := path.Dir(file)
		if dir == "." {
			return true
		}
		if _, ok := slices.BinarySearch(parents, dir); ok {
			return true
		}
		return slices.ContainsFunc(roots, func(r string) bool { return below(dir, r) })
	}
}
