package gitindex

import (
	"slices"
	"testing"
)

func TestConePatterns(t *testing.T) {
	const top = "/*\n!/*/\n"
	for _, c := range []struct {
		cone Cone
		want string
	}{
		{Cone{"a"}, top + "/a/\n"},
		{Cone{"b", "a"}, top + "/a/\n/b/\n"},
		{Cone{"a/b/c"}, top + "/a/\n!/a/*/\n/a/b/\n!/a/b/*/\n/a/b/c/\n"},
		{Cone{"a", "a/b"}, top + "/a/\n"},
		{Cone{"a/b", "ab"}, top + "/a/\n!/a/*/\n/a/b/\n/ab/\n"},
		{Cone{"a b", "a"}, top + "/a/\n/a b/\n"},
	} {
		if got := string(c.cone.Patterns()); got != c.want {
			t.Errorf("%q:\n%s\nwant:\n%s", c.cone, got, c.want)
		}
	}
}

func TestConeSelector(t *testing.T) {
	files := []string{"top", "a/f", "a/b/f", "a/b/c/f", "ab/f", "x/y"}
	for _, c := range []struct {
		cone Cone
		want []string
	}{
		{nil, files},
		{Cone{"a"}, []string{"top", "a/f", "a/b/f", "a/b/c/f"}},
		{Cone{"a/b/c"}, []string{"top", "a/f", "a/b/f", "a/b/c/f"}},
		{Cone{"a/x"}, []string{"top", "a/f"}},
		{Cone{"ab", "x"}, []string{"top", "ab/f", "x/y"}},
		{Cone{"none"}, []string{"top"}},
		{Cone{"top"}, []string{"top"}},
	} {
		selected := c.cone.Selector()
		got := slices.DeleteFunc(slices.Clone(files), func(f string) bool { return !selected(f) })
		if !slices.Equal(got, c.want) {
			t.Errorf("%q selects %q, want %q", c.cone, got, c.want)
		}
	}
}
