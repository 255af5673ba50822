package git

import (
	"path"
	"slices"
	"strings"
)

// Cone is a selection of files as in git's cone mode: all that is below the
// directories, and the files that lie directly in each directory above one. Nil
// is everything.
type Cone []string

// roots returns the directories that are not below another one, sorted.
func (c Cone) roots() []string {
	var roots []string
	for _, dir := range slices.Sorted(slices.Values(c)) {
		if !slices.ContainsFunc(roots, func(r string) bool { return below(dir, r) }) {
			roots = append(roots, dir)
		}
	}
	return roots
}

func below(name, dir string) bool { return name == dir || strings.HasPrefix(name, dir+"/") }

// parents returns the directories above the roots, sorted, without the top.
func (c Cone) parents() []string {
	var parents []string
	for _, root := range c.roots() {
		for dir := path.Dir(root); dir != "."; dir = path.Dir(dir) {
			parents = append(parents, dir)
		}
	}
	slices.Sort(parents)
	return slices.Compact(parents)
}

// Patterns returns the content of info/sparse-checkout, as git sparse-checkout
// set writes it. No directory may hold a character that patterns give a meaning.
func (c Cone) Patterns() []byte {
	var b strings.Builder
	b.WriteString("/*\n!/*/\n")
	for _, dir := range c.parents() {
		b.WriteString("/" + dir + "/\n!/" + dir + "/*/\n")
	}
	for _, dir := range c.roots() {
		b.WriteString("/" + dir + "/\n")
	}
	return []byte(b.String())
}

// selector returns a function that reports whether a file is selected.
func (c Cone) selector() func(file string) bool {
	if c == nil {
		return func(string) bool { return true }
	}
	roots, parents := c.roots(), c.parents()
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
