package git

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

// ErrUnlike is why a checkout is not moved to a commit that is better checked out
// whole: it changes a .gitattributes, which says how files are written that have not
// changed, or there is one that is a link, or the two differ in more than a move is
// worth.
var ErrUnlike = errors.New("the commits are too different")

// What a comparison may take, and what is kept of it: a tree of ten billion files can
// be a download of one kilobyte. git says nothing before it has compared all.
const (
	maxChanges     = 200_000  // files and directories
	maxChangeBytes = 32 << 20 // of names
	maxName        = 4096     // of one: longer ones can't be checked out
	compareTimeout = 20 * time.Second
)

// movedIndex holds, while a checkout is moved, the entries that are new.
const movedIndex = "index.moved"

// move turns the checkout of another commit, from, into that of c.Commit, whose tree
// has the ID tree. The index is not complete before it is settled.
//
// git says what has changed, which of it may be in an index, and writes it; the
// index is put together here, for git would read all trees. That it is the commit's
// is known by the hashes of the trees that have changed.
func (g *Git) move(ctx context.Context, c Checkout, from, tree string) (ix *Index, err error) {
	var ch changes
	var both errgroup.Group
	both.Go(func() (err error) {
		ch, err = g.changes(ctx, c, from)
		return err
	})
	both.Go(func() (err error) {
		ix, err = c.readIndex(IndexFile)
		return err
	})
	if err := both.Wait(); err != nil {
		return nil, err
	}
	if ix.dirs == nil || ix.hasOddAttributes() {
		return nil, ErrUnlike
	}
	ix.written = make(map[string]bool)
	if ch.records == 0 && hex.EncodeToString(ix.dirs.id) == tree {
		return ix, nil
	}
	defer func() { err = joinNotNil(err, c.removeRepository()) }()
	if err := c.makeRepository(); err != nil {
		return nil, err
	}
	added, err := g.newEntries(ctx, c, ch)
	if err != nil {
		return nil, err
	}
	gone, err := ix.replace(ch, added)
	if err != nil {
		return nil, err
	}
	if err := ix.dirs.change(ch, tree); err != nil {
		return nil, err
	}
	if err := ix.dirs.verify(c, "", ix.entries, ch.changed()); err != nil {
		return nil, err
	}
	if err := removeFiles(ctx, c.Dir, gone); err != nil {
		return nil, err
	}
	if len(added.entries) == 0 {
		return ix, nil
	}
	if err := g.writeFiles(ctx, c, movedIndex, added); err != nil {
		return nil, err
	}
	ix.unencoded = added.unencoded
	return ix, os.Remove(filepath.Join(c.gitDir(), movedIndex))
}

// hasOddAttributes reports whether a .gitattributes is a link, say: git takes what is
// in the index for its content then, and that of what is new does not have it.
func (ix *Index) hasOddAttributes() bool {
	return slices.ContainsFunc(ix.entries, func(e indexEntry) bool {
		return strings.HasSuffix(e.name, attributesFile) && path.Base(e.name) == attributesFile && e.isFile() && !e.isRegular()
	})
}

// changes is what is different in one commit's tree from another's.
type changes struct {
	records, bytes int
	gone           map[string]bool // files that are there no more
	added          []addition
	fresh          int // how many of those are new
	goneDirs       []string
	dirs           []changedDir
}

// addition is a file that is new or another one.
type addition struct {
	name, info string // mode and ID, as update-index reads them
	fresh      bool
}

// changedDir is a directory that is new or another one.
type changedDir struct{ name, id string }

// changed returns a function that reports whether a directory is new or another one.
func (ch changes) changed() func(dir string) bool {
	dirs := make(map[string]bool)
	for _, d := range ch.dirs {
		dirs[d.name] = true
	}
	return func(dir string) bool { return dirs[dir] }
}

const (
	noMode  = "000000"
	dirMode = "040000"
)

// changes asks git what is different in c.Commit from another commit.
func (g *Git) changes(ctx context.Context, c Checkout, from string) (changes, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, compareTimeout, ErrUnlike)
	defer cancel()
	ch := changes{gone: make(map[string]bool)}
	selected := c.Cone.selector()
	var fields []string // of the record before the path: modes, IDs, status
	err := g.eachRecord(ctx, command{
		op:   fmt.Sprintf("compare %s with %s", c.Commit, from),
		args: []string{"--git-dir=.", "diff-tree", "-r", "-t", "-z", "--raw", "--no-renames", "--no-abbrev", from, c.Commit},
		dir:  c.Store, uid: c.UID, gid: c.GID, read: []string{c.Store},
	}, 0, func(record string) error {
		if fields == nil {
			if fields = strings.Fields(strings.TrimPrefix(record, ":")); len(fields) != 5 {
				return fmt.Errorf("diff-tree: unexpected record %q", record)
			}
			return nil
		}
		ch.add(record, fields[0], fields[1], fields[3])
		fields = nil
		if ch.records > maxChanges || ch.bytes > maxChangeBytes || len(record) > maxName ||
			path.Base(record) == attributesFile && selected(record) {
			return ErrUnlike
		}
		return nil
	})
	return ch, err
}

func (ch *changes) add(name, oldMode, newMode, id string) {
	ch.records++
	ch.bytes += len(name)
	wasFile, isFile := oldMode != noMode && oldMode != dirMode, newMode != noMode && newMode != dirMode
	switch {
	case newMode == dirMode:
		ch.dirs = append(ch.dirs, changedDir{name, id})
	case oldMode == dirMode:
		ch.goneDirs = append(ch.goneDirs, name)
	}
	switch {
	case isFile:
		ch.added = append(ch.added, addition{name: name, info: newMode + " " + id, fresh: !wasFile})
		if !wasFile {
			ch.fresh++
		}
	case wasFile:
		ch.gone[name] = true
	}
}

// newEntries has git make an index of what is new, as far as it may be in one.
func (g *Git) newEntries(ctx context.Context, c Checkout, ch changes) (*Index, error) {
	if len(ch.added) == 0 {
		return &Index{checkout: c}, nil
	}
	var stdin strings.Builder
	for _, a := range ch.added {
		stdin.WriteString(a.info + "\t" + a.name + "\x00")
	}
	if err := g.runIn(ctx, c, movedIndex, stdin.String(), nil, "update-index", "-z", "--index-info"); err != nil {
		return nil, err
	}
	added, err := c.readIndex(movedIndex)
	none := errors.Is(err, os.ErrNotExist)
	if err != nil && !none {
		return nil, err
	}
	if none || len(added.entries) != len(ch.added) {
		return nil, fmt.Errorf("git refuses some of the names in %s", c.Commit)
	}
	added.leaveOut(c.Cone)
	return added, nil
}

// replace takes out of an index what is gone, and puts in what is new. It returns
// the files that are to be removed. An error says that it is not the index that the
// changes are of.
func (ix *Index) replace(ch changes, added *Index) (gone []string, err error) {
	entries := make([]indexEntry, 0, len(ix.entries)+len(added.entries))
	rest, removed, replaced := added.entries, 0, 0
	for _, e := range ix.entries {
		for len(rest) > 0 && rest[0].name < e.name {
			entries, rest = append(entries, rest[0]), rest[1:]
		}
		switch {
		case len(rest) > 0 && rest[0].name == e.name:
			replaced++ // by what the next round begins with
		case ch.gone[e.name]:
			if removed++; !e.skip {
				gone = append(gone, e.name)
			}
		default:
			entries = append(entries, e)
		}
	}
	ix.entries = append(entries, rest...)
	if removed != len(ch.gone) || replaced != len(added.entries)-ch.fresh {
		return nil, errors.New("the index is of another commit")
	}
	for _, e := range added.entries {
		ix.written[e.name] = true
	}
	return gone, nil
}

// removeFiles removes files, and the directories that are empty then.
func removeFiles(ctx context.Context, dir string, names []string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	above := make(map[string]bool)
	for _, name := range names {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := root.Remove(name); err != nil {
			return fmt.Errorf("remove %q: %w", name, withoutPath(err))
		}
		for dir := path.Dir(name); dir != "." && !above[dir]; dir = path.Dir(dir) {
			above[dir] = true
		}
	}
	inner := slices.SortedFunc(maps.Keys(above), func(a, b string) int { return len(b) - len(a) })
	for _, dir := range inner {
		if err := root.Remove(dir); err != nil && !errors.Is(err, syscall.ENOTEMPTY) {
			return fmt.Errorf("remove %q: %w", dir, withoutPath(err))
		}
	}
	return nil
}

// withoutPath is an error of the system alone: the name in it is a repository's, and
// could be anything.
func withoutPath(err error) error {
	if bad, ok := errors.AsType[*os.PathError](err); ok {
		return bad.Err
	}
	return err
}
