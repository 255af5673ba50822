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

// ErrUnlike means that a checkout can't be moved to a commit, which must be checked out
// in full: a .gitattributes changes, which affects unchanged files, or is a symlink, or
// the commits differ too much.
var ErrUnlike = errors.New("the commits are too different")

// Limits of a comparison: a tree of ten billion files can be a download of one kilobyte,
// and git prints nothing before it has compared everything.
const (
	maxChanges     = 200_000  // files and directories
	maxChangeBytes = 32 << 20 // of their names
	maxName        = 4096     // bytes of a path: longer ones can't be checked out
	compareTimeout = 20 * time.Second
)

// movedIndex is the file with the new entries while a checkout is moved.
const movedIndex = "index.moved"

// move implements Move. The caller must then call complete on the index.
//
// git lists the changes, checks which names an index may have, and writes the files. move
// itself updates the index, because git would read all trees, and verifies it by the
// hashes of the changed trees.
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
	// If a .gitattributes is a symlink, say, git reads it from the index, and the index
	// of the new entries does not have it.
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

// changes returns the difference from another commit to c.Commit.
func (g runner) changes(ctx context.Context, c Spec, from string) (ch gitindex.Changes, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, compareTimeout, ErrUnlike)
	defer cancel()
	selected := c.Cone.Selector()
	info := "" // the record's first field, before its path
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

// newEntries makes git write an index of the new entries. It fails if git refuses a name.
func (g runner) newEntries(ctx context.Context, c Spec, ch gitindex.Changes) (*index, error) {
	n, info := ch.Files()
	if n == 0 {
		return &index{Index: gitindex.New(c.idSize()), checkout: c}, nil
	}
	if err := g.runIn(ctx, c, movedIndex, info, nil, "update-index", "-z", "--index-info"); err != nil {
		return nil, err
	}
	added, err := c.readIndex(movedIndex)
	if errors.Is(err, os.ErrNotExist) || err == nil && len(added.Entries) != n {
		err = fmt.Errorf("git refuses some of the names in %s", c.Commit)
	}
	if err != nil {
		return nil, err
	}
	added.LeaveOut(c.Cone)
	return added, nil
}

// removeFiles removes files, and their parent directories that become empty.
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

// withoutPath returns err without its path, which comes from the repository and could be
// anything.
func withoutPath(err error) error {
	if bad, ok := errors.AsType[*os.PathError](err); ok {
		return bad.Err
	}
	return err
}
