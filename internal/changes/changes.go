// Package changes says what a workspace changed against the commit that it began with: which
// files, a patch, and an archive of them.
//
// A change is everything that a container did to the files, committed or not, as far as git
// would see it: the bytes of a file, whether it can be executed, the target of a link. Files
// are compared with those of the checkout, and not with the objects of the commit, so
// conversions of line ends and LFS objects are no changes. .git, the link to the cache and
// the warm paths are left out, and so is everything that is no file and no link.
//
// Candidates come from the upper. The cost is proportional to what a container wrote, removed or
// moved, and not to the repository.
//
// A container may change its files meanwhile, and has written their names and contents: paths
// are opened by descriptor, without following links or entering mounts, and every count, size
// and time is limited. git runs only in a directory of our own, on what was copied there.
package changes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/tree"
)

const (
	// maxList and maxPathBytes bound the changes that are kept, and maxOmitted the rest. Others
	// are only counted.
	maxList      = 200_000
	maxPathBytes = 16 << 20
	maxOmitted   = 1000
	// maxVisited bounds the names that are looked at, and findTime how long that takes.
	maxVisited = 3_000_000
	findTime   = time.Minute
	// maxPath is the length of the longest path that the kernel opens.
	maxPath = unix.PathMax - 1
)

// Source is the files of a workspace.
type Source struct {
	Merged *os.File // the root of what the container sees
	Base   *os.File // the root of what it began with, which never changes
	Upper  string   // what containers wrote
	Skip   []string // paths that are left out with all below them, such as warm paths
}

// Kind says how a path differs.
type Kind string

const (
	Added   Kind = "added"
	Changed Kind = "changed" // its bytes or its mode, or a file has become a link
	Deleted Kind = "deleted"
)

// Change is a path of a file or a link that differs.
type Change struct {
	Path    string // slash-separated; any bytes but zero
	Kind    Kind
	Ignored bool   // it was added, and a .gitignore names it
	Module  string // the path of the submodule that it is in; empty for the repository itself
}

// Omitted is a path that is not a Change, and why.
type Omitted struct{ Path, Why string }

// Set is what changed. Its numbers count all changes, and those of files that were added do not
// count ignored ones.
type Set struct {
	List                             []Change  // by path, each once
	Omitted                          []Omitted // by path
	Added, Changed, Deleted, Ignored int64
	// Truncated says why there may be more changes than List has; empty if it has all.
	Truncated string
}

// Reader finds changes. It is safe for concurrent use.
type Reader struct {
	Git *git.Git
	// Dir is a directory for files of our own, which is emptied when the plugin starts.
	Dir string
}

var (
	errMany = fmt.Errorf("the workspace has more than %d changed names: only a part was looked at", maxVisited)
	errSlow = fmt.Errorf("to look at all changes takes more than %v: only a part was looked at", findTime)
)

// Find returns what changed.
func (r *Reader) Find(ctx context.Context, src Source) (*Set, error) {
	f, err := find(ctx, src)
	if err != nil {
		return nil, err
	}
	if err := r.ignore(ctx, src, f); err != nil {
		return nil, err
	}
	return f.set(), nil
}

// finder finds changes.
type finder struct {
	Source
	end     context.CancelCauseFunc // ends the walks
	ctx     context.Context
	skip    map[string]bool
	found   map[string]Change
	bytes   int // of the paths in found
	extra   [3]int64
	omitted []Omitted
	modules []string // submodules
	visited int
	cut     string // why the result is not complete
}

// find is Find without a word about ignored files.
func find(ctx context.Context, src Source) (*finder, error) {
	limited, stop := context.WithTimeoutCause(ctx, findTime, errSlow)
	defer stop()
	f := &finder{Source: src, skip: make(map[string]bool), found: make(map[string]Change)}
	f.ctx, f.end = context.WithCancelCause(limited)
	defer f.end(nil)
	for _, path := range src.Skip {
		f.skip[path] = true
	}
	if old := f.look(src.Base, tree.CacheLink); old.kind == none { // the repository has none of its own
		f.skip[tree.CacheLink] = true
	}
	var err error
	disk.Nice(func() { err = disk.Walk(f.ctx, src.Upper, &upperVisitor{finder: f}, nil) })
	if cause := context.Cause(f.ctx); errors.Is(cause, errMany) || errors.Is(cause, errSlow) {
		f.cut, err = cause.Error(), nil
	} else if cause != nil {
		err = cause
	}
	if err != nil {
		return nil, fmt.Errorf("look for changes: %w", err)
	}
	return f, nil
}

// set returns the result.
func (f *finder) set() *Set {
	s := &Set{Added: f.extra[0], Changed: f.extra[1], Deleted: f.extra[2], Omitted: f.omitted, Truncated: f.cut}
	slices.Sort(f.modules)
	for _, c := range f.found {
		c.Module = f.moduleOf(c.Path)
		s.List = append(s.List, c)
		switch {
		case c.Ignored:
			s.Ignored++
		case c.Kind == Added:
			s.Added++
		case c.Kind == Changed:
			s.Changed++
		default:
			s.Deleted++
		}
	}
	slices.SortFunc(s.List, func(a, b Change) int { return cmp.Compare(a.Path, b.Path) })
	slices.SortFunc(s.Omitted, func(a, b Omitted) int { return cmp.Compare(a.Path, b.Path) })
	if s.Truncated == "" && f.extra != [3]int64{} {
		s.Truncated = fmt.Sprintf("more than %d files, or %d bytes of names, changed: the others are only counted", maxList, maxPathBytes)
	}
	return s
}

// moduleOf returns the innermost submodule that a path is in.
func (f *finder) moduleOf(path string) string {
	for at := strings.LastIndexByte(path, '/'); at > 0; at = strings.LastIndexByte(path[:at], '/') {
		if _, ok := slices.BinarySearch(f.modules, path[:at]); ok {
			return path[:at]
		}
	}
	return ""
}

// add notes a change.
func (f *finder) add(path string, kind Kind) {
	if old, known := f.found[path]; known { // it changed while it was looked at
		old.Kind = kind
		f.found[path] = old
		return
	}
	if len(f.found) >= maxList || f.bytes+len(path) > maxPathBytes {
		f.extra[slices.Index([]Kind{Added, Changed, Deleted}, kind)]++
		return
	}
	f.bytes += len(path)
	f.found[path] = Change{Path: path, Kind: kind}
}

// omit notes a path that is no change.
func (f *finder) omit(path, why string) {
	if len(f.omitted) < maxOmitted && len(path) <= maxPath {
		f.omitted = append(f.omitted, Omitted{path, why})
	}
}

// leftOut reports whether a path, with all below it, is left out. name is its last part.
func (f *finder) leftOut(path, name string) bool {
	if f.visited++; f.visited > maxVisited {
		f.end(errMany)
	}
	switch {
	case name == ".git", f.skip[path], f.ctx.Err() != nil:
		return true
	case len(path) > maxPath:
		f.omit(path[:100]+"…", "its path is too long")
		return true
	}
	return false
}

// compare looks at a path that has something other than a directory in the upper, or that a
// directory hides or shows.
func (f *finder) compare(path string) {
	now, old := f.look(f.Merged, path), f.look(f.Base, path)
	if now.err != nil || old.err != nil {
		f.omit(path, "it can't be read: "+errorText(cmp.Or(now.err, old.err)))
		return
	}
	if now.kind == special {
		f.omit(path, "it is a "+now.name())
	}
	switch {
	case now.comparable() && old.comparable():
		same, err := f.same(path, now, old)
		if err != nil {
			f.omit(path, "it can't be read: "+errorText(err))
		} else if !same {
			f.add(path, Changed)
		}
	case now.comparable():
		f.add(path, Added)
	case old.comparable():
		f.add(path, Deleted)
	}
	if old.kind == directory && now.kind != directory {
		f.goneBelow(path)
	}
}

// errorText is the kernel's part of an error.
func errorText(err error) string {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		err = e.Err
	}
	return err.Error()
}

// goneBelow notes the deleted files below a directory of the base.
func (f *finder) goneBelow(path string) {
	f.below(f.Base, path, func(path string) {
		if !f.look(f.Merged, path).comparable() && f.look(f.Base, path).comparable() {
			f.add(path, Deleted)
		}
	})
}

// replaced compares all files below a directory that does not show what is below it in the
// base.
func (f *finder) replaced(path string) {
	f.below(f.Merged, path, f.compare)
	if f.look(f.Base, path).kind == directory {
		f.goneBelow(path)
	}
}

// below calls visit for everything below a path that is not a directory.
func (f *finder) below(root *os.File, path string, visit func(path string)) {
	v := &belowVisitor{finder: f, path: path, base: root == f.Base, visit: visit}
	if err := disk.WalkBelow(f.ctx, root, path, v, nil); err != nil && f.ctx.Err() == nil && !absent(err) {
		f.omit(path, "it can't be read: "+errorText(err))
	}
}
