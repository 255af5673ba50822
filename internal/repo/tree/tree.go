package tree

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/failpoint"
	"github.com/helmdeck/repos/internal/git/giterror"
	"github.com/helmdeck/repos/internal/git/gitindex"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/repo/checkout"
	"github.com/helmdeck/repos/internal/repo/remote"
	"github.com/helmdeck/repos/internal/volume"
	"github.com/helmdeck/repos/internal/work"
	"github.com/helmdeck/repos/internal/workspace/cache"
)

// treeShape is the version of the format of trees. It is part of their IDs, so that trees
// of another version are not used.
const treeShape = "files-5"

// Layers are the layers of a checkout, which are held until Release.
type Layers struct {
	Tree, GitLayer meta.Layer
	Release        func()
}

// Build returns the layers of a Snapshot, and builds those that do not exist, side by side unless the git layer depends
// on the tree's submodules. The error is remote.ErrAgain if one of them was removed meanwhile.
func (c *Collection) Build(ctx context.Context, snap *remote.Snapshot, s Spec) (Layers, error) {
	s.Source = snap.Source // which has the history
	defer c.HoldCommit(snap.Resolution.Commit)()
	var l Layers
	var gitErr error
	var beside sync.WaitGroup
	alone := s.Files.Submodules.Levels == volume.NoLevel
	if alone {
		beside.Go(func() { l.GitLayer, gitErr = c.gitLayer(ctx, snap, s, meta.Layer{}) })
	}
	tree, err := c.tree(ctx, s, snap.Resolution.Commit)
	beside.Wait()
	if err == nil && !alone {
		l.GitLayer, gitErr = c.gitLayer(ctx, snap, s, tree)
	}
	l.Tree = tree
	switch err := cmp.Or(err, gitErr); {
	case err != nil:
		return Layers{}, err
	case !c.holdKnown(l.Tree, l.GitLayer):
		return Layers{}, remote.ErrAgain
	}
	l.Release = func() { c.Drop(l.Tree.Chain, l.GitLayer.ID) }
	return l, nil
}

// tree returns the tree of a commit, and builds it if it does not exist. The empty string stands
// for no commit: its tree has no files, and no index.
func (c *Collection) tree(ctx context.Context, s Spec, commit string) (meta.Layer, error) {
	shape := c.shapeOf(s)
	if l, ok := c.flat(shape, commit); ok {
		return l, nil
	}
	id := c.timely(treeID(shape, commit))
	build := func(ctx context.Context, dir string) (meta.Layer, error) {
		if s.History.NoBlobs { // BringBlobs does not say what is wrong with the commit
			if err := c.checkCommit(ctx, s, commit); err != nil {
				return meta.Layer{}, err
			}
		}
		if err := c.repo.BringBlobs(ctx, s.Source, commit, s.cone()); err != nil {
			return meta.Layer{}, err
		}
		_, end := c.doing.Begin(ctx, "checking out", s.URL.String())
		defer end()
		l := meta.Layer{Kind: meta.Tree, ID: id, Chain: []string{id}, Commit: commit, Shape: shape, Store: s.History.Name()}
		err := c.buildTree(ctx, s, &l, dir)
		if isPartial(l) {
			l.ID = partialID(shape, commit)
			l.Chain = []string{l.ID}
		}
		return l, err
	}
	if s.Files.PartialSubmodules {
		return c.completest(ctx, s, id, shape, commit, build)
	}
	return c.layer(ctx, meta.Tree, id, build)
}

// shapeOf returns the shape of the trees of s: see meta.Layer.
func (c *Collection) shapeOf(s Spec) string {
	f := s.Files
	return layerID(treeShape, s.UID, s.GID, f.Sparse, f.Submodules, f.PartialSubmodules, f.NoLFS, c.submoduleBase(s))
}

// treeID returns the ID of the tree of a shape and commit that lacks no submodule.
func treeID(shape, commit string) string { return layerID("tree", shape, commit) }

// checkCommit returns an error if the store lacks the tree of a commit, and says why.
func (c *Collection) checkCommit(ctx context.Context, s Spec, commit string) error {
	if commit == "" {
		return nil
	}
	ok, err := c.git.HasTree(ctx, c.repo.StoreDir(s.History.Name()), commit)
	if err == nil && !ok { // a tag can point to a tree or a file
		err = c.repo.NoCommit(ctx, s.Source, commit)
	}
	return err
}

// buildTree builds the tree l in dir, an empty directory: on top of another tree if
// possible, otherwise whole.
func (c *Collection) buildTree(ctx context.Context, s Spec, l *meta.Layer, dir string) error {
	if l.Commit == "" {
		return s.buildEmpty(dir)
	}
	done, err := c.buildDelta(ctx, s, l, dir)
	if done || err != nil && (ctx.Err() != nil || giterror.NoSpace(err)) {
		c.addCandidate(s, *l)
		return err
	}
	if err != nil {
		c.log.WithContext(ctx).WithError(err).Warn("a tree can't be built on another one: it is built whole")
		if err := disk.RemoveContents(dir); err != nil {
			return err
		}
	}
	if err = c.buildWhole(ctx, s, l, c.sameShape(l), dir); err != nil {
		err = cmp.Or(c.checkCommit(ctx, s, l.Commit), err) // which says more
	}
	return err
}

// buildWhole checks out l's commit into dir, an empty directory. It copies the times of
// unchanged files from the first of the other trees that still exists.
func (c *Collection) buildWhole(ctx context.Context, s Spec, l *meta.Layer, others []meta.Layer, dir string) error {
	var like treeDirs
	if i := slices.IndexFunc(others, c.layers.HoldKnown); i >= 0 {
		defer c.layers.Drop(meta.Tree, others[i].Chain...)
		like = c.layers.Lower(meta.Tree, others[i].Chain...)
	}
	if err := s.makeTop(dir); err != nil {
		return err
	}
	co := s.checkoutOf(c.repo, l.Commit, dir)
	co.TimesFrom = like.reference("", ".git")
	found, err := checkout.Make(ctx, c.git, co)
	if err != nil {
		return err
	}
	failpoint.Hit("tree/build/checked-out")
	c.warnUnencoded(ctx, l.Commit, found)
	if err := c.fillLFS(ctx, s, c.common.rule(s), co, found); err != nil {
		return err
	}
	l.TracksCache = found.Tracked
	return c.buildSubmodules(ctx, s, l, co, like, found)
}

// buildEmpty builds the tree of a repository without a commit.
func (s Spec) buildEmpty(dir string) error {
	if err := s.makeTop(dir); err != nil {
		return err
	}
	w, top := ownedWriter{uid: int(s.UID), gid: int(s.GID)}, filepath.Join(dir, ".git")
	if cone := s.cone(); cone != nil {
		w.mkdirs(top, filepath.Dir(checkout.Patterns))
		w.file(filepath.Join(top, checkout.Patterns), cone.Patterns())
	}
	return w.err
}

// makeTop prepares an empty directory for a checkout.
func (s Spec) makeTop(dir string) error {
	if err := os.Mkdir(filepath.Join(dir, ".git"), 0o755); err != nil {
		return err
	}
	for _, d := range []string{dir, filepath.Join(dir, ".git")} {
		if err := os.Chown(d, int(s.UID), int(s.GID)); err != nil {
			return err
		}
	}
	return nil
}

// warnUnencoded logs the files of a commit that git could not write in the encoding of
// their attributes. git clone warns too, and writes the same bytes.
func (c *Collection) warnUnencoded(ctx context.Context, commit string, found checkout.Found) {
	if len(found.Unencoded) > 0 {
		c.log.WithContext(ctx).WithFields(map[string]any{"commit": commit, "files": fmt.Sprint(found.Unencoded)}).
			Warn("files could not be written in their working-tree-encoding: they are as the commit has them")
	}
}

// cone returns the directories that s checks out, nil for all.
func (s Spec) cone() gitindex.Cone { return gitindex.Cone(s.Files.Sparse.Dirs()) }

// checkoutOf returns the checkout of a commit into dir, without TimesFrom.
func (s Spec) checkoutOf(r Repository, commit, dir string) checkout.Spec {
	return checkout.Spec{
		Store: r.StoreDir(s.History.Name()), Commit: commit, Cone: s.cone(),
		Dir: dir, UID: s.UID, GID: s.GID,
		Tracks: cache.Link, NoLFS: s.Files.NoLFS, Submodules: s.Files.Submodules.Levels != volume.NoLevel,
	}
}

// builder builds a layer in an empty directory, and returns its record. It holds the
// layers that this one stands on; buildLayer drops them.
type builder = func(ctx context.Context, dir string) (meta.Layer, error)

// layer returns the layer of an ID, and builds it if it does not exist. If the disk is
// full, it makes room and builds it again.
func (c *Collection) layer(ctx context.Context, k meta.Kind, id string, build builder) (meta.Layer, error) {
	return c.getOrShare(ctx, k, id, func(ctx context.Context) (meta.Layer, error) { return c.buildInRoom(ctx, k, build) })
}

func (c *Collection) buildInRoom(ctx context.Context, k meta.Kind, build builder) (l meta.Layer, err error) {
	err = c.withRoom(ctx, c.expectedSize(), func() error {
		l, err = c.buildLayer(ctx, k, build)
		return err
	})
	return l, err
}

// getOrShare returns the layer of an ID or, if it does not exist, the result of f. One run
// of f serves all concurrent callers with that ID.
func (c *Collection) getOrShare(ctx context.Context, k meta.Kind, id string, f func(context.Context) (meta.Layer, error)) (meta.Layer, error) {
	if l, ok := c.layers.Get(k, id); ok {
		return l, nil
	}
	return work.ShareTask(ctx, c.used, "layer\x00"+string(k)+"\x00"+id, func(ctx context.Context) (meta.Layer, error) {
		if l, ok := c.layers.Get(k, id); ok { // published since
			return l, nil
		}
		return f(ctx)
	})
}

// buildLayer builds a layer under a temporary name and publishes it. After an error it
// leaves nothing behind.
func (c *Collection) buildLayer(ctx context.Context, k meta.Kind, build builder) (l meta.Layer, err error) {
	defer c.layers.Building()()
	temp, err := c.layers.Temp(k)
	if err != nil {
		return l, err
	}
	failpoint.Hit("tree/layer/made")
	if l, err = build(ctx, temp); err == nil {
		failpoint.Hit("tree/layer/built")
		l, err = c.publish(ctx, l, temp)
	}
	if len(l.Chain) > 1 {
		c.layers.Drop(k, l.Chain[1:]...)
	}
	if err != nil {
		c.dropCandidates([]meta.Layer{l})
		return l, errors.Join(err, c.layers.Discard(temp))
	}
	c.measure()
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

// expectedSize guesses the size of the next tree: that of the largest one. Zero means
// unknown.
func (c *Collection) expectedSize() disk.Size {
	var size disk.Size
	for _, l := range c.layers.List(meta.Tree) {
		if l.Size.Bytes > size.Bytes {
			size = l.Size.Size
		}
	}
	for _, s := range c.repo.Stores() { // stores are compressed: expect at least as much
		size.Bytes = max(size.Bytes, s.Size.Bytes)
	}
	return size
}

// treeDirs are the directories of the layers of a held tree, topmost first, or nil. A
// whole build copies the times of unchanged files from there.
type treeDirs []string

// reference returns the tree's checkout below path, with its repository in gitDir. Both
// are relative to the top of the tree. If the checkout is missing or unreadable,
// reference returns the zero value, because a build does not need one.
func (d treeDirs) reference(path, gitDir string) checkout.Reference {
	if len(d) == 0 {
		return checkout.Reference{}
	}
	if path != "" {
		// The repository may be that of another submodule, which had the same name.
		want, err := gitFile(path, gitDir)
		got, readErr := os.ReadFile(filepath.Join(d[0], path, ".git"))
		if err != nil || readErr != nil || string(got) != want {
			return checkout.Reference{}
		}
	}
	index := filepath.Join(d[0], gitDir, checkout.IndexFile) // each layer has the whole index
	if info, err := os.Lstat(index); err != nil || !info.Mode().IsRegular() {
		return checkout.Reference{}
	}
	r := checkout.Reference{Index: index}
	for _, dir := range d {
		if _, err := os.Lstat(filepath.Join(dir, path)); err == nil {
			r.Dirs = append(r.Dirs, filepath.Join(dir, path))
		}
	}
	return r
}

// gitFile returns the content of the file .git at path, which names the repository gitDir.
func gitFile(path, gitDir string) (string, error) {
	to, err := filepath.Rel(path, gitDir)
	return "gitdir: " + to + "\n", err
}
