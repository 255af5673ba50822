package remote

import (
	"fmt"
	"strings"
	"testing"

	"github.com/helmdeck/repos/internal/git/gitref"
)

func TestCollide(t *testing.T) {
	t.Parallel()
	for names, want := range map[string]bool{
		"": false, "a": false, "a b": false, "a a/b": true, "a a-b a/b": true, "a a0 a/b/c": true, "a/b a/b/c": true, "a/b a/bc": false,
		"a/b ab/c a.b": false, "x/a/b a x/a-b": false, "x/a/b/c a x/a": true,
	} {
		var refs []gitref.PackedRef
		for _, name := range strings.Fields(names) {
			refs = append(refs, gitref.PackedRef{Name: name})
		}
		if got := collide(refs); got != want {
			t.Errorf("%q: %v", names, got)
		}
	}
	// Each name has 500 directories: to look each of them up would hash a gigabyte.
	var refs []gitref.PackedRef
	for i := range 5000 {
		refs = append(refs, gitref.PackedRef{Name: strings.Repeat("a/", 500) + fmt.Sprint(i)})
	}
	if collide(refs) {
		t.Error("long names: true")
	}
}
