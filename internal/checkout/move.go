package checkout

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
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/gitindex"
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
func (g runner) move(ctx context.Context, c Spec, from, tree string) (ix *index, err error) {
	var ch gitindex.Changes
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
	// git takes what is in the index for the content of a .gitattributes that is a link,
	// say, and the index of what is new does not have it.
	if ix.Tree() == nil || ix.HasOddAttributes() {
		return nil, ErrUnlike
	}
	ix.written = make(map[string]bool)
	if ch.Records == 0 && hex.EncodeToString(ix.Tree()) == tree {
		return ix, nil
	}
	defer func() { err = errors.Join(err, c.removeRepository()) }()
	if err := c.makeRepository(); err != nil {
		return nil, err
	}
	added, err := g.newEntries(ctx, c, ch)
	if err != nil {
		return nil, err
	}
	gone, err := ix.Apply(&ch, added.Index, tree)
	if err != nil {
		return nil, err
	}
	for _, e := range added.Entries {
		ix.written[e.Name()] = true
	}
	if err := removeFiles(ctx, c.Dir, gone); err != nil {
		return nil, err
	}
	if len(added.Entries) == 0 {
		return ix, nil
	}
	if err := g.writeFiles(ctx, c, movedIndex, added); err != nil {
		return nil, err
	}
	ix.unencoded = added.unencoded
	return ix, os.Remove(filepath.Join(c.gitDir(), movedIndex))
}

// changes asks git what is different in c.Commit from another commit.
func (g runner) changes(ctx context.Context, c Spec, from string) (ch gitindex.Changes, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, compareTimeout, ErrUnlike)
	defer cancel()
	selected := c.Cone.Selector()
	info := "" // of the record, before its path
	err = g.EachRecord(ctx, git.Command{
		Op:   fmt.Sprintf("compare %s with %s", c.Commit, from),
		Args: []string{"--git-dir=.", "diff-tree", "-r", "-t", "-z", "--raw", "--no-renames", "--no-abbrev", from, c.Commit},
		Dir:  c.Store, UID: c.UID, GID: c.GID, Read: []string{c.Store},
	}, 0, func(field string) error {
		if info == "" {
			info = field
			return nil
		}
		err := ch.Add(info, field)
		info = ""
		if err == nil && (ch.Records > maxChanges || ch.Bytes > maxChangeBytes || len(field) > maxName ||
			path.Base(field) == gitindex.Attributes && selected(field)) {
			err = ErrUnlike
		}
		return err
	})
	return ch, err
}

// newEntries has git make an index of what is new, as far as it may be in one.
func (g runner) newEntries(ctx context.Context, c Spec, ch gitindex.Changes) (*index, error) {
	n, info := ch.Files()
	if n == 0 {
		return &index{Index: gitindex.New(c.idSize()), checkout: c}, nil
	}
	if err := g.runIn(ctx, c, movedIndex, info, nil, "update-index", "-z", "--index-info"); err != nil {
		return nil, err
	}
	added, err := c.readIndex(movedIndex)
	none := errors.Is(err, os.ErrNotExist)
	if err != nil && !none {
		return nil, err
	}
	if none || len(added.Entries) != n {
		return nil, fmt.Errorf("git refuses some of the names in %s", c.Commit)
	}
	added.LeaveOut(c.Cone)
	return added, nil
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
