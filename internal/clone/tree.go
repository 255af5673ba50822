package clone

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/durable"
	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/meta"
)

// treeShape names how trees are built; it is part of their ID, so that trees of
// another shape or of another way of building are other trees.
const treeShape = "full-1"

// treeFor returns the tree of a commit for a uid and gid, and builds it if there
// is none.
func (c *Clone) treeFor(ctx context.Context, s Spec, commit string) (meta.Layer, error) {
	id := layerID("tree", treeShape, commit, s.UID, s.GID)
	return c.layer(ctx, c.trees, id, c.treeDir(id), func(ctx context.Context, dir string) (meta.Layer, error) {
		_, end := c.begin("checking out", s.URL.String())
		defer end()
		l := meta.Layer{Clone: c.key, ID: id, Chain: []string{id}, Commit: commit}
		var err error
		l.TracksCache, err = c.buildTree(ctx, s, commit, dir)
		return l, err
	}, (*meta.Tx).PutTree)
}

// buildTree checks a commit out into dir, an empty directory.
func (c *Clone) buildTree(ctx context.Context, s Spec, commit, dir string) (tracksCache bool, err error) {
	if err := os.Mkdir(filepath.Join(dir, ".git"), 0o755); err != nil {
		return false, err
	}
	for _, d := range []string{dir, filepath.Join(dir, ".git")} {
		if err := os.Chown(d, int(s.UID), int(s.GID)); err != nil {
			return false, err
		}
	}
	co := git.Checkout{Store: c.storeDir(), Commit: commit, Dir: dir, UID: s.UID, GID: s.GID}
	if err := c.m.Git.Checkout(ctx, co); err != nil {
		return false, err
	}
	if err := settle(ctx, c.m.Git, co); err != nil {
		return false, err
	}
	return exists(filepath.Join(dir, CacheLink))
}

// CacheLink is the name at the top of a workspace that shows the cache.
const CacheLink = ".hdcache"

const (
	// setBack is how far the times of new files are set back: git compares whole
	// seconds, so one would do only if the clock were read at its very start.
	setBack = 2 * time.Second
	// settleByTouch is the number of files up to which setting their times back
	// and having git read them again (15 µs each) is cheaper than half a second,
	// the mean time until the second passes.
	settleByTouch = 20000
)

// settle makes sure that no file of a tree carries the current second, and that
// the index is younger than all of them. Else a same-size edit in that second
// would be invisible to git status, and every container would read all files
// again at its first one.
func settle(ctx context.Context, g *git.Git, co git.Checkout) error {
	index := filepath.Join(co.Dir, git.Index)
	n, err := git.IndexEntries(index)
	if errors.Is(err, os.ErrNotExist) {
		return nil // an empty commit
	}
	if err != nil {
		return err
	}
	if n <= settleByTouch {
		if err := touchAll(co.Dir, time.Now().Add(-setBack)); err != nil {
			return err
		}
		return g.RefreshIndex(ctx, co)
	}
	next := time.Now().Truncate(time.Second).Add(time.Second)
	select {
	case <-time.After(time.Until(next)):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return os.Chtimes(index, next, next)
}

// touchAll sets the modification time of all files and symlinks below dir. Only
// git has written there.
func touchAll(dir string, t time.Time) error {
	ts := unix.NsecToTimespec(t.UnixNano())
	times := []unix.Timespec{ts, ts}
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		return unix.UtimesNanoAt(unix.AT_FDCWD, path, times, unix.AT_SYMLINK_NOFOLLOW)
	})
}

// layer returns the layer of an ID, from memory or, shared with all who want it
// at the same time, built under a temporary name and then published.
func (c *Clone) layer(ctx context.Context, known map[string]meta.Layer, id, dir string,
	build func(ctx context.Context, dir string) (meta.Layer, error), put func(*meta.Tx, meta.Layer) error,
) (meta.Layer, error) {
	find := func() (meta.Layer, bool) {
		c.mu.Lock()
		defer c.mu.Unlock()
		l, ok := known[id]
		return l, ok
	}
	if l, ok := find(); ok {
		return l, nil
	}
	return share(ctx, c.m, "layer\x00"+dir, func(ctx context.Context) (l meta.Layer, err error) {
		if l, ok := find(); ok {
			return l, nil
		}
		temp, err := tempDir(filepath.Dir(dir))
		if err != nil {
			return l, err
		}
		defer func() {
			if err != nil {
				_, trashErr := c.m.Trash.Put(temp, "layer")
				err = errors.Join(err, trashErr)
			}
		}()
		if l, err = build(ctx, temp); err != nil {
			return l, err
		}
		l.Boot, l.CreatedAt = c.m.Boot, c.m.Now()
		c.publishing.Lock()
		defer c.publishing.Unlock()
		// Not synced: until it is durable, the record is good for this boot only.
		if err = durable.RenameVolatile(temp, dir); err != nil {
			return l, err
		}
		if err = c.m.DB.Update(func(tx *meta.Tx) error { return put(tx, l) }); err != nil {
			temp = dir
			return l, err
		}
		c.mu.Lock()
		known[id] = l
		c.mu.Unlock()
		c.m.syncSoon()
		return l, nil
	})
}
