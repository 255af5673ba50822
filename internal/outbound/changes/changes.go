package changes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/workspace/cache"
)

const (
	// maxList and maxPathBytes bound the changes that are kept: others are only counted. maxOmitted and
	// maxOmittedBytes bound the rest.
	maxList         = 200_000
	maxPathBytes    = 16 << 20
	maxOmitted      = 1000
	maxOmittedBytes = 128 << 10
	// maxModuleBytes bounds the paths of submodules in which something was written. A repository may have 10,000.
	maxModuleBytes = 2 << 20
	// maxVisited bounds the names that are looked at, and findTime how long that takes.
	maxVisited = 3_000_000
	findTime   = time.Minute
	// maxPath is the length of the longest path that the kernel opens.
	maxPath = unix.PathMax - 1
)

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
// count ignored ones. It takes some memory, and for many changes a file. Close it.
type Set struct {
	Omitted                          []Omitted // by path
	Added, Changed, Deleted, Ignored int64
	// Truncated says why there may be more changes than All has; empty if it has all.
	Truncated string
	// All yields the changes by path, each path once. After an error it ends.
	All iter.Seq2[Change, error]

	found   *list
	ignored [2]*list
	modules []string // submodules, sorted
}

// merged yields the changes with what is known of them.
func (s *Set) merged() iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		before, after := follow(s.ignored[0]), follow(s.ignored[1])
		defer before.stop()
		defer after.stop()
		for c, err := range s.found.all() {
			inBefore, inAfter := before.has(c.Path), after.has(c.Path)
			if err := cmp.Or(err, before.err, after.err); err != nil {
				yield(Change{}, err)
				return
			}
			c.Ignored = (inBefore || c.Kind == Added) && (inAfter || c.Kind == Deleted)
			c.Module = s.moduleOf(c.Path)
			if !yield(c, nil) {
				return
			}
		}
	}
}

// follower is where the reading of a list is, beside that of another one.
type follower struct {
	next func() (Change, error, bool)
	stop func()
	now  Change
	more bool
	err  error
}

func follow(l *list) *follower {
	f := new(follower)
	f.next, f.stop = iter.Pull2(l.all())
	f.now, f.err, f.more = f.next()
	return f
}

// has reports whether the list has a path, which must not come before that of the last call.
func (f *follower) has(path string) bool {
	for f.more && f.err == nil && f.now.Path < path {
		f.now, f.err, f.more = f.next()
	}
	return f.more && f.err == nil && f.now.Path == path
}

// Close gives back what the set takes.
func (s *Set) Close() {
	s.found.close()
	s.ignored[0].close()
	s.ignored[1].close()
}

// Reader finds changes. It is safe for concurrent use.
type Reader struct {
	Git *git.Git
	// Dir is a directory for files of our own, which is emptied when the plugin starts.
	Dir string
	// Compute, if set, calls f when this process may compute for long. The error is f's, or ctx
	// ended before. No turn for git may be waited for in f.
	Compute func(ctx context.Context, f func() error) error
}

// compute calls f when this process may compute for long.
func (r *Reader) compute(ctx context.Context, f func() error) error {
	if r.Compute == nil {
		return f()
	}
	return r.Compute(ctx, f)
}

var (
	errMany    = fmt.Errorf("the workspace has more than %d changed names: only a part was looked at", maxVisited)
	errModules = fmt.Errorf("the paths of the submodules that were written to have more than %d bytes: only a part was looked at", maxModuleBytes)
	errSlow    = fmt.Errorf("to look at all changes takes more than %v: only a part was looked at", findTime)
)

// Find returns what changed.
func (r *Reader) Find(ctx context.Context, src Source) (*Set, error) {
	f := r.newFinder(src)
	err := r.compute(ctx, func() error { return f.find(ctx) })
	if err == nil {
		err = r.ignore(ctx, f)
	}
	var s *Set
	if err == nil {
		err = r.compute(ctx, func() (err error) { s, err = f.set(); return err })
	}
	if err != nil {
		f.close()
		return nil, err
	}
	return s, nil
}

// finder finds changes.
type finder struct {
	Source
	end     context.CancelCauseFunc // ends the walks
	ctx     context.Context
	skip    map[string]bool
	found   *list
	ignored [2]*list // those of found that a .gitignore of Before, or of After, names
	extra   [3]int64 // changes that are not in found, by the number of their kind
	omitted []Omitted
	bytes   int      // of omitted
	modules []string // submodules
	modSize int      // of their paths
	visited int
	cut     string // why the result is not complete
}

func (r *Reader) newFinder(src Source) *finder {
	return &finder{Source: src, skip: make(map[string]bool), found: &list{dir: r.Dir}, ignored: [2]*list{{dir: r.Dir}, {dir: r.Dir}}}
}

// find is Find without a word about ignored files.
func (f *finder) find(ctx context.Context) error {
	limited, stop := context.WithTimeoutCause(ctx, findTime, errSlow)
	defer stop()
	f.ctx, f.end = context.WithCancelCause(limited)
	defer f.end(nil)
	for _, path := range f.Skip {
		f.skip[path] = true
	}
	f.skip[cache.Link] = f.hasCacheLink()
	var err error
	for _, dir := range f.Dirs {
		err = cmp.Or(err, disk.Walk(f.ctx, dir, &layerVisitor{finder: f}, nil))
	}
	if cause := context.Cause(f.ctx); errors.Is(cause, errMany) || errors.Is(cause, errSlow) || errors.Is(cause, errModules) {
		f.cut, err = cause.Error(), nil
	} else if cause != nil {
		err = cause
	}
	if err != nil {
		return fmt.Errorf("look for changes: %w", err)
	}
	return nil
}

// hasCacheLink reports whether nothing but links of the plugin to the cache is at their name.
func (f *finder) hasCacheLink() bool {
	for _, side := range []Side{f.Before, f.After} {
		if f.look(side.Root, cache.Link).kind != none && !f.isCacheLink(side) {
			return false
		}
	}
	return true
}

// isCacheLink reports whether the link to the cache is that of the plugin: the repository has nothing there, and no
// container has put something else in its place, or made it in a volume without the link.
func (f *finder) isCacheLink(side Side) bool {
	if f.look(side.Checkout, cache.Link).kind != none || f.look(side.Root, cache.Link).kind != link {
		return false
	}
	c, err := open(side.Root, cache.Link)
	if err != nil {
		return false
	}
	defer c.Close()
	target, err := io.ReadAll(io.LimitReader(c, int64(len(cache.Mount))+1))
	return err == nil && string(target) == cache.Mount
}

// close gives back what the lists take.
func (f *finder) close() {
	f.found.close()
	f.ignored[0].close()
	f.ignored[1].close()
}

// set returns the result.
func (f *finder) set() (*Set, error) {
	s := &Set{
		Added: f.extra[0], Changed: f.extra[1], Deleted: f.extra[2], Omitted: f.omitted, Truncated: f.cut,
		found: f.found, ignored: f.ignored, modules: f.modules,
	}
	slices.Sort(s.modules)
	s.All = s.merged()
	for c, err := range s.All {
		switch {
		case err != nil:
			return nil, err
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
	slices.SortFunc(s.Omitted, func(a, b Omitted) int { return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Why, b.Why)) })
	s.Omitted = slices.Compact(s.Omitted) // two layers may have the same path
	if s.Truncated == "" && f.extra != [3]int64{} {
		s.Truncated = fmt.Sprintf("more than %d files, or %d bytes of names, changed: the others are only counted", maxList, maxPathBytes)
	}
	return s, nil
}

// moduleOf returns the innermost submodule that a path is in.
func (s *Set) moduleOf(path string) string {
	for at := strings.LastIndexByte(path, '/'); at > 0; at = strings.LastIndexByte(path[:at], '/') {
		if _, ok := slices.BinarySearch(s.modules, path[:at]); ok {
			return path[:at]
		}
	}
	return ""
}

// add notes a change.
func (f *finder) add(path string, kind Kind) {
	if f.found.count >= maxList || f.found.total+len(path) > maxPathBytes {
		f.extra[kindNumber(kind)]++
		return
	}
	if err := f.found.add(Change{Path: path, Kind: kind}); err != nil {
		f.end(err)
	}
}

// omit notes a path that is no change.
func (f *finder) omit(path, why string) {
	size := len(path) + len(why)
	if len(f.omitted) < maxOmitted && f.bytes+size <= maxOmittedBytes && len(path) <= maxPath {
		f.omitted, f.bytes = append(f.omitted, Omitted{path, why}), f.bytes+size
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

// compare looks at a path that has something other than a directory in a layer, or that a
// directory hides or shows.
func (f *finder) compare(path string) {
	now, old := f.look(f.After.Root, path), f.look(f.Before.Root, path)
	if now.err != nil || old.err != nil {
		f.omit(path, "it can't be read: "+errorText(cmp.Or(now.err, old.err)))
		return
	}
	for _, e := range []entry{now, old} {
		if e.kind == special {
			f.omit(path, "it is a "+e.name())
		}
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
	switch {
	case old.kind == directory && now.kind != directory:
		f.goneBelow(path)
	case now.kind == directory && old.kind != directory: // the layer is one of Before
		f.below(f.After.Root, path, f.compare)
	}
}

// errorText is the kernel's part of an error.
func errorText(err error) string {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		err = e.Err
	}
	return err.Error()
}

// goneBelow notes the deleted files below a directory of Before.
func (f *finder) goneBelow(path string) {
	f.below(f.Before.Root, path, func(path string) {
		if !f.look(f.After.Root, path).comparable() && f.look(f.Before.Root, path).comparable() {
			f.add(path, Deleted)
		}
	})
}

// replaced compares all files below a directory of a layer that does not show what is below it in the other ones.
func (f *finder) replaced(path string) {
	f.below(f.After.Root, path, f.compare)
	if f.look(f.Before.Root, path).kind == directory {
		f.goneBelow(path)
	}
}

// below calls visit for everything below a path that is not a directory.
func (f *finder) below(root *os.File, path string, visit func(path string)) {
	v := &belowVisitor{finder: f, path: path, visit: visit}
	if err := disk.WalkBelow(f.ctx, root, path, v, nil); err != nil && f.ctx.Err() == nil && !absent(err) {
		f.omit(path, "it can't be read: "+errorText(err))
	}
}
