package checkout

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/git/gitindex"
	"github.com/helmdeck/repos/internal/git/gitref"
)

// Base has the files from which something was built: below Dir the indexes of a checkout, at their paths below its
// .git, and Edited.
type Base struct {
	Dir   string
	Built int64 // after it was built, in whole seconds since 1970
}

// TreeIndex is the file beside an index of a Base that has the times of the checkout, where the index has later ones.
const TreeIndex = "index.tree"

// Edited is the file of a Base with the paths, each followed by a NUL, at which, or below which, there were other files
// than the indexes say; "." stands for all files.
const Edited = "edited"

// Stamp is a file of a checkout that must have another modification time, in nanoseconds since 1970: a new one if
// the time is zero.
type Stamp struct {
	Path  gitref.Text
	Mtime int64
}

// maxStamps bounds the files that get another time: each costs some 30 microseconds, and an inode.
const maxStamps = 20_000

// Stamps returns the files of the checkout in c.Below that need another time, because make, Cargo or Python would take
// what was built from one of bases for newer than it is:
//
//   - A file that is not the same in a base gets a new time, unless its time is in a later second than the base's. If one
//     gets a new time, all such files do, as far as they are not too many: a generated file that was updated after its
//     source must not become older than that.
//   - A file that is the same must not be older than it was there.
//   - What a link names is not the same if the link is not, because these programs see through it.
//
// The error is ErrUnlike if these are too many. c.Dir is a directory of c.UID that the process may use.
func Stamps(ctx context.Context, g *git.Git, c Spec, bases []Base) ([]Stamp, error) {
	found, err := runJob(ctx, g, job{Do: doStamps, Spec: c, Bases: bases})
	return found.Stamps, err
}

// Restamp writes the indexes of the checkout in c.Below into c.Dir, the next layer, with the stat data of the files there,
// which are those of stamps. The directories of the indexes must exist.
func Restamp(ctx context.Context, g *git.Git, c Spec, stamps []Stamp) error {
	_, err := runJob(ctx, g, job{Do: doRestamp, Spec: c, Stamps: stamps})
	return err
}

// repository is one of a checkout: itself or a submodule in it.
type repository struct{ path, gitDir string } // relative to the top

// index returns the index of a repository, in the topmost layer that has it; nil if none has.
func (c Spec) indexOf(r repository) (*index, error) {
	for _, dir := range c.Below {
		ix, err := c.readIndexAt(filepath.Join(dir, r.gitDir, IndexFile))
		if !errors.Is(err, os.ErrNotExist) && !errors.Is(err, unix.ENOTDIR) {
			return ix, err
		}
	}
	return nil, nil
}

// module returns the repository of a submodule of r; ok is unset if it was not checked out.
func (c Spec) module(r repository, name string) (m repository, ok bool) {
	m.path = path.Join(r.path, name)
	for _, dir := range c.Below {
		if text, err := os.ReadFile(filepath.Join(dir, m.path, ".git")); err == nil {
			to, found := strings.CutPrefix(strings.TrimSpace(string(text)), "gitdir: ")
			m.gitDir = path.Join(m.path, to)
			return m, found && filepath.IsLocal(m.gitDir)
		}
	}
	return m, false
}

// stamps collects what Stamps returns.
type stamps struct {
	spec   Spec
	times  map[string]int64 // fresh for a new time
	edited map[string]bool
	base   Base
	late   []string // files that are not the same, and have late enough times, at most maxStamps and one
}

const fresh = math.MaxInt64

// stamps implements Stamps.
func (c Spec) stamps(bases []Base) (list []Stamp, err error) {
	s := &stamps{spec: c, times: make(map[string]int64)}
	for _, b := range bases {
		text, err := os.ReadFile(filepath.Join(b.Dir, Edited))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
		s.base, s.edited = b, make(map[string]bool)
		for name := range strings.SplitSeq(string(text), "\x00") {
			s.edited[name] = true
		}
		if err := s.compare(repository{gitDir: ".git"}, true); err != nil {
			return nil, err
		}
	}
	anyFresh := false
	for _, t := range s.times {
		anyFresh = anyFresh || t == fresh
	}
	if anyFresh && len(s.times)+len(s.late) <= maxStamps {
		for _, name := range s.late {
			s.times[name] = fresh
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.times)) {
		t := s.times[name]
		if t == fresh {
			t = 0
		}
		list = append(list, Stamp{gitref.Text(name), t})
	}
	return list, nil
}

// compare compares a repository with that of the base, which may have none.
func (s *stamps) compare(r repository, known bool) error {
	ix, err := s.spec.indexOf(r)
	if ix == nil || err != nil {
		return err
	}
	var data [2][]byte
	for i, name := range []string{IndexFile, TreeIndex} {
		if !known {
			break
		}
		data[i], err = mapFile(filepath.Join(s.base.Dir, strings.TrimPrefix(r.gitDir, ".git"), name), unix.PROT_READ)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		defer unix.Munmap(data[i])
	}
	var links []gitindex.Entry
	modules, err := ix.Since(data[0], data[1], func(e, was gitindex.Entry, same bool) {
		if s.add(path.Join(r.path, e.Name()), e, was, same) && !e.IsRegular() {
			links = append(links, e)
		}
	})
	if err != nil {
		return err
	}
	followed := make(map[string]bool)
	for ; len(links) > 0 && len(followed) < maxStamps; links = links[1:] {
		name := links[0].Name()
		if followed[name] {
			continue
		}
		followed[name] = true
		for _, e := range ix.At(s.spec.target(r.path, name)) {
			if e.IsFile() && s.add(path.Join(r.path, e.Name()), e, gitindex.Entry{}, false) && !e.IsRegular() {
				links = append(links, e)
			}
		}
	}
	if len(s.times) > maxStamps {
		return ErrUnlike
	}
	for _, e := range ix.Entries {
		if !e.IsSubmodule() {
			continue
		}
		if m, ok := s.spec.module(r, e.Name()); ok {
			if err := s.compare(m, modules[e.Name()]); err != nil {
				return err
			}
		}
	}
	return nil
}

// add adds the file at a path if it needs another time. It reports whether the file is not the same.
func (s *stamps) add(at string, e, was gitindex.Entry, same bool) (changed bool) {
	changed = !same || s.edited[at] || gitindex.AnyAbove(s.edited, at)
	t := int64(fresh)
	switch {
	case !changed:
		t = was.Mtime()
	case e.Mtime()/int64(time.Second) > s.base.Built:
		if len(s.late) <= maxStamps {
			s.late = append(s.late, at)
		}
		return true
	}
	if t > e.Mtime() && len(s.times) <= maxStamps {
		s.times[at] = max(s.times[at], t)
	}
	return changed
}

// target returns the path of what a link in a repository names, relative to the repository; empty if the link can't be
// read.
func (c Spec) target(repository, name string) string {
	for _, dir := range c.Below {
		if to, err := os.Readlink(filepath.Join(dir, repository, name)); err == nil {
			return path.Join(path.Dir(name), to)
		}
	}
	return ""
}

// restamp implements Restamp.
func (c Spec) restamp(list []Stamp) error {
	names := make(map[string]bool, len(list))
	for _, s := range list {
		names[string(s.Path)] = true
	}
	return c.restampIn(repository{gitDir: ".git"}, names)
}

// restampIn writes the index of a repository, and of those in it, if files in it are new in c.Dir.
func (c Spec) restampIn(r repository, names map[string]bool) error {
	ix, err := c.indexOf(r)
	if ix == nil || err != nil {
		return err
	}
	changed := false
	for _, e := range ix.Entries {
		at := path.Join(r.path, e.Name())
		switch {
		case e.IsSubmodule():
			if m, ok := c.module(r, e.Name()); ok {
				if err := c.restampIn(m, names); err != nil {
					return err
				}
			}
		case names[at]:
			var st unix.Stat_t
			if err := unix.Lstat(filepath.Join(c.Dir, at), &st); err != nil {
				return fmt.Errorf("lstat %q: %w", at, err)
			}
			e.SetStat(&st)
			changed = true
		}
	}
	if !changed {
		return nil
	}
	ix.checkout.GitDir = filepath.Join(c.Dir, r.gitDir)
	return ix.write()
}

// layerIndex returns the path of the topmost index in c.Below.
func (c Spec) layerIndex() string {
	for _, dir := range c.Below {
		name := filepath.Join(dir, ".git", IndexFile)
		if _, err := os.Lstat(name); err == nil {
			return name
		}
	}
	return filepath.Join(cmp.Or(c.Dir, "/"), ".git", IndexFile)
}
