package tree

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/helmdeck/repos/internal/checkout"
	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/failpoint"
	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/gitindex"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/volume"
	"github.com/helmdeck/repos/internal/work"
)

// treeShape names how trees are built; it is part of their ID, so that trees of
// another shape or of another way of building are other trees.
const treeShape = "files-3"

// Tree returns the tree of a commit for a uid and gid, and builds it if there
// is none.
func (c *Collection) Tree(ctx context.Context, s Spec, commit string) (meta.Layer, error) {
	shape := layerID(treeShape, s.UID, s.GID, s.Files, s.submoduleBase())
	id := layerID("tree", shape, commit)
	if l, ok := c.flat(shape, commit); ok {
		return l, nil
	}
	return c.layer(ctx, meta.Tree, id, func(ctx context.Context, dir string) (meta.Layer, error) {
		root, ok, err := c.remote.Git.Tree(ctx, c.remote.StoreDir(s.History.Name()), commit)
		if err == nil && !ok { // a tag may be of a tree or of a file
			err = c.remote.NoCommit(ctx, s.Source, commit)
		}
		if err != nil {
			return meta.Layer{}, err
		}
		if err := c.remote.BringBlobs(ctx, s.Source, commit, s.cone()); err != nil {
			return meta.Layer{}, err
		}
		_, end := c.remote.Doing.Begin(ctx, "checking out", s.URL.String())
		defer end()
		l := meta.Layer{Kind: meta.Tree, ID: id, Chain: []string{id}, Commit: commit, Shape: shape, Store: s.History.Name()}
		err = c.fillTree(ctx, s, &l, root, dir)
		return l, err
	})
}

// fillTree makes the files of l's commit, whose tree object is root, in dir, an
// empty directory: on top of another tree, or else all of them.
func (c *Collection) fillTree(ctx context.Context, s Spec, l *meta.Layer, root, dir string) error {
	done, err := c.buildDelta(ctx, s, l, root, dir)
	if done || err != nil && (ctx.Err() != nil || git.NoSpace(err)) {
		c.flattenLater(s, *l)
		return err
	}
	if err != nil {
		c.remote.Log.WithError(err).Warn("a tree can't be built on the one before: it is built whole")
		if err := removeContents(dir); err != nil {
			return err
		}
	}
	for _, t := range c.sameShape(l) {
		if c.layers.HoldKnown(t) {
			defer c.layers.Drop(meta.Tree, t.Chain...)
			return c.buildTree(ctx, s, l, c.layers.Lower(meta.Tree, t.Chain...), dir)
		}
	}
	return c.buildTree(ctx, s, l, nil, dir)
}

// buildTree checks l's commit out into dir, an empty directory. Files that are the
// same in another tree of the shape, like, have the times that they have there.
func (c *Collection) buildTree(ctx context.Context, s Spec, l *meta.Layer, like layers, dir string) error {
	if err := os.Mkdir(filepath.Join(dir, ".git"), 0o755); err != nil {
		return err
	}
	for _, d := range []string{dir, filepath.Join(dir, ".git")} {
		if err := os.Chown(d, int(s.UID), int(s.GID)); err != nil {
			return err
		}
	}
	co := c.checkoutOf(s, l.Commit, dir)
	co.Like = like.reference("", ".git")
	found, err := checkout.Make(ctx, c.remote.Git, co)
	if err != nil {
		return err
	}
	failpoint.Hit("clone/tree/checked-out")
	c.warnUnencoded(l.Commit, found)
	if err := c.lfs.fill(ctx, s, c.rule(s), co, found); err != nil {
		return err
	}
	l.TracksCache = found.Tracked
	l.Modules, err = c.buildSubmodules(ctx, s, co, like, found)
	return err
}

// warnUnencoded logs which files of a commit git has not written in the encoding that
// attributes ask for. git clone says so too, and leaves the same.
func (c *Collection) warnUnencoded(commit string, found checkout.Found) {
	if len(found.Unencoded) > 0 {
		c.remote.Log.WithFields(map[string]any{"commit": commit, "files": fmt.Sprint(found.Unencoded)}).
			Warn("files could not be written in their working-tree-encoding: they are as the commit has them")
	}
}

// cone returns the part of a commit that s checks out.
func (s Spec) cone() gitindex.Cone { return gitindex.Cone(s.Files.Sparse.Dirs()) }

func (c *Collection) checkoutOf(s Spec, commit, dir string) checkout.Spec {
	return checkout.Spec{
		Store: c.remote.StoreDir(s.History.Name()), Commit: commit, Cone: s.cone(),
		Dir: dir, UID: s.UID, GID: s.GID,
		Tracks: CacheLink, NoLFS: s.Files.NoLFS, Submodules: s.Files.Submodules != volume.SubmodulesNone,
	}
}

// builder makes a layer in an empty directory, and returns its record. What that
// stands on is held, and let go of once it is published.
type builder = func(ctx context.Context, dir string) (meta.Layer, error)

// layer returns the layer of an ID, from memory or, shared with all who want it
// at the same time, built under a temporary name and then published.
func (c *Collection) layer(ctx context.Context, k meta.Kind, id string, build builder) (meta.Layer, error) {
	if l, ok := c.layers.Get(k, id); ok {
		return l, nil
	}
	return work.ShareTask(ctx, c.remote.Used, building(k, id), func(ctx context.Context) (l meta.Layer, err error) {
		if l, ok := c.layers.Get(k, id); ok {
			return l, nil
		}
		err = c.remote.WithRoom(ctx, c.sizeOfNext(), func() error {
			l, err = c.buildNew(ctx, k, build)
			return err
		})
		return l, err
	})
}

// building is the key of the build of a layer.
func building(k meta.Kind, id string) string { return "layer\x00" + string(k) + "\x00" + id }

// buildNew builds a layer that there is not. An error leaves nothing behind.
func (c *Collection) buildNew(ctx context.Context, k meta.Kind, build builder) (l meta.Layer, err error) {
	temp, err := c.layers.Temp(k)
	if err != nil {
		return l, err
	}
	failpoint.Hit("clone/layer/made")
	if l, err = build(ctx, temp); err == nil {
		failpoint.Hit("clone/layer/built")
		l, err = c.publish(ctx, l, temp)
	}
	if len(l.Chain) > 1 {
		c.layers.Drop(k, l.Chain[1:]...)
	}
	if err != nil {
		c.forgetBuilt([]meta.Layer{l})
		return l, errors.Join(err, c.layers.Discard(temp))
	}
	c.remote.Measure()
	c.collectSoon()
	return l, nil
}

func (c *Collection) publish(ctx context.Context, l meta.Layer, temp string) (meta.Layer, error) {
	unlock, err := c.layers.Lock(ctx)
	if err != nil {
		return l, err
	}
	defer unlock()
	return c.layers.Publish(l, temp)
}

// sizeOfNext guesses what the next tree will take: what the largest one took.
// Zero is not known.
func (c *Collection) sizeOfNext() disk.Size {
	var size disk.Size
	for _, l := range c.layers.List(meta.Tree) {
		if l.Size.Bytes > size.Bytes {
			size = l.Size.Size
		}
	}
	for _, s := range c.remote.Stores() { // compressed: at least that
		if size.Bytes < s.Size.Bytes {
			size.Bytes = s.Size.Bytes
		}
	}
	return size
}

// layers are the directories of a tree that is held, topmost first: of one from which
// another that is built whole takes the times of files. None: there is no such tree.
type layers []string

// reference returns the checkout that is in the layers, below path with its repository
// in gitDir. Both are below the top of the tree, which the empty path is. It is the
// zero value where there is none, or what there is can't be read: nobody needs it.
func (l layers) reference(path, gitDir string) checkout.Reference {
	if len(l) == 0 {
		return checkout.Reference{}
	}
	if path != "" {
		// Another submodule's repository may have had the name.
		want, err := gitFile(path, gitDir)
		got, readErr := os.ReadFile(filepath.Join(l[0], path, ".git"))
		if err != nil || readErr != nil || string(got) != want {
			return checkout.Reference{}
		}
	}
	index := filepath.Join(l[0], gitDir, checkout.IndexFile) // each layer has all of it
	if info, err := os.Lstat(index); err != nil || !info.Mode().IsRegular() {
		return checkout.Reference{}
	}
	r := checkout.Reference{Index: index}
	for _, dir := range l {
		if _, err := os.Lstat(filepath.Join(dir, path)); err == nil {
			r.Dirs = append(r.Dirs, filepath.Join(dir, path))
		}
	}
	return r
}

// gitFile returns the content of the .git at path that names the repository gitDir.
func gitFile(path, gitDir string) (string, error) {
	to, err := filepath.Rel(path, gitDir)
	return "gitdir: " + to + "\n", err
}
