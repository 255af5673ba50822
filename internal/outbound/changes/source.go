package changes

import (
	"os"
	"slices"
)

// Source is two work trees: a workspace and the checkout that it began with, or two workspaces.
type Source struct {
	Before, After Side
	// Dirs are the layers that only one of them has, such as what containers wrote. A path that differs is in one of
	// these directories, or below a directory that is opaque or has a redirect there.
	Dirs []string
	Skip []string // paths that are left out with all below them, such as warm paths
}

// Side is a work tree.
type Side struct {
	Root     *os.File // of the files; a container may change them meanwhile
	Checkout *os.File // the root of what it began with, which never changes; Root itself for a checkout
}

// Unshared returns the layers of two stacks, topmost first, that are not at the bottom of both: where their files can
// differ.
func Unshared(a, b []string) []string {
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	return slices.Concat(a, b)
}
