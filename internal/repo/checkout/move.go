package checkout

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/git/gitindex"
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
func (g runner) move(ctx context.Context, c Spec, from string) (ix *index, err error) {
	var ch gitindex.Changes
	var tree string
	var all errgroup.Group
	all.Go(func() (err error) {
		ch, tree, err = g.changes(ctx, c, from)
		return err
	})
	all.Go(func() (err error) {
		ix, err = c.readIndexAt(c.baseIndex())
		return err
	})
	if err := all.Wait(); err != nil {
		return nil, err
	}
	// git follows a .gitattributes that is a symlink in the work tree, and not in an index.
	attributes, odd := ix.Attributes()
	if ix.Tree() == nil || odd {
		return nil, ErrUnlike
	}
	ix.written, ix.moved = make(map[string]bool), true
	if ch.Records == 0 && hex.EncodeToString(ix.Tree()) == tree {
		return ix, nil
	}
	defer func() { err = errors.Join(err, c.removeRepository()) }()
	if err := c.makeRepository(); err != nil {
		return nil, err
	}
	added, err := g.newEntries(ctx, c, ch, attributes)
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
	var beside errgroup.Group
	beside.Go(func() error { return ix.Verify(&ch) })
	if err = hideFiles(ctx, c.Dir, gone, ix); err == nil && len(added.Entries) > 0 {
		beside.Go(ix.draft)
		err = g.writeFiles(ctx, c, movedIndex, added)
		ix.unencoded = added.unencoded
		err = errors.Join(err, os.Remove(filepath.Join(c.gitDir(), movedIndex)))
	}
	return ix, cmp.Or(beside.Wait(), err)
}

// changes returns the difference from another commit to c.Commit, and the ID of the tree of
// c.Commit: empty, which no index matches, if git can't read it.
func (g runner) changes(ctx context.Context, c Spec, from string) (ch gitindex.Changes, tree string, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, compareTimeout, ErrUnlike)
	defer cancel()
	selected := c.Cone.Selector()
	info := "" // the record's first field, before its path
	err = g.EachRecord(ctx, git.Command{
		Op: fmt.Sprintf("compare %s with %s", c.Commit, from),
		// Only with --stdin does it name the tree. There it takes from as the commit's parent.
		Args:  []string{"--git-dir=.", "diff-tree", "--stdin", "--always", "--format=%T", "-r", "-t", "-z", "--raw", "--no-renames", "--no-abbrev"},
		Stdin: c.Commit + " " + from + "\n",
		Dir:   c.Store, UID: c.UID, GID: c.GID, Read: []string{c.Store},
	}, 0, func(field string) error {
		switch {
		case tree == "":
			tree = field
			return nil
		case info == "":
			info = strings.TrimPrefix(field, "\n") // which follows the tree
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
	return ch, tree, err
}

// newEntries makes git write an index of the new entries, and returns it. It fails if git
// refuses a name. The file of the index also has those of the .gitattributes that may
// apply, which git reads there because the layer does not have them.
func (g runner) newEntries(ctx context.Context, c Spec, ch gitindex.Changes, attributes []gitindex.Entry) (*index, error) {
	n, info := ch.Files()
	if n == 0 {
		return &index{Index: gitindex.New(c.idSize()), checkout: c}, nil
	}
	above, extra := ch.Above(), make(map[string]bool)
	var stdin strings.Builder
	stdin.WriteString(info)
	for _, e := range attributes {
		if above[path.Dir(e.Name())] {
			extra[e.Name()] = true
			stdin.WriteString(e.Info())
		}
	}
	if err := g.runIn(ctx, c, movedIndex, stdin.String(), nil, "update-index", "-z", "--index-info"); err != nil {
		return nil, err
	}
	added, err := c.readIndex(movedIndex)
	if errors.Is(err, os.ErrNotExist) || err == nil && len(added.Entries) != n+len(extra) {
		err = fmt.Errorf("git refuses some of the names in %s", c.Commit)
	}
	if err != nil {
		return nil, err
	}
	added.Entries = slices.DeleteFunc(added.Entries, func(e gitindex.Entry) bool { return extra[e.Name()] })
	added.LeaveOut(c.Cone)
	return added, nil
}

// hideFiles makes whiteouts in dir, a layer, for the files of the layers below that are gone,
// and for directories without other files in ix, as overlayfs does when they are removed.
func hideFiles(ctx context.Context, dir string, gone []string, ix *index) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	hidden, used := make(map[string]bool), make(map[string]bool)
	in := &openDir{root: root}
	defer in.close()
	for _, name := range gone {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		for above := path.Dir(name); above != "."; above = path.Dir(above) {
			has, known := used[above]
			if !known {
				has = ix.HasDir(above)
				used[above] = has
			}
			if has {
				break
			}
			name = above
		}
		// A file, or a directory, that takes the place of the other hides it.
		if hidden[name] || ix.HasDir(name) || ix.HasFile(name) {
			continue
		}
		hidden[name] = true
		if err := in.makeWhiteout(name); err != nil {
			return fmt.Errorf("hide %q: %w", name, withoutPath(err))
		}
	}
	return nil
}

// openDir is the last directory that makeWhiteout used: many files of one directory may be
// gone, and its path may have 2000 elements.
type openDir struct {
	root *os.Root
	name string
	file *os.File
}

// makeWhiteout makes a whiteout, which needs no privilege, and the directories above.
func (d *openDir) makeWhiteout(name string) error {
	if dir := path.Dir(name); d.file == nil || dir != d.name {
		if err := d.root.MkdirAll(dir, 0o777); err != nil {
			return err
		}
		f, err := d.root.Open(dir)
		if err != nil {
			return err
		}
		d.close()
		d.name, d.file = dir, f
	}
	return unix.Mknodat(int(d.file.Fd()), path.Base(name), unix.S_IFCHR, 0)
}

func (d *openDir) close() {
	if d.file != nil {
		d.file.Close()
	}
}

// withoutPath returns err without its path, which comes from the repository and could be
// anything.
func withoutPath(err error) error {
	if bad, ok := errors.AsType[*os.PathError](err); ok {
		return bad.Err
	}
	return err
}
