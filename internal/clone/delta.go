package clone

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/helmdeck/repos/internal/failpoint"
	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/overlay"
	"github.com/helmdeck/repos/internal/volume"
)

// buildDelta builds a tree on top of the one that is nearest to it, if there is
// one: the other's layers are mounted under dir as an upper, and git moves the
// files there from one commit to the other. What it wrote is the layer. It costs
// what has changed, and a look at every file's times, but writes none of the
// others. It reports whether it did, and then what l stands on is held; if not,
// the tree can be built whole in dir once that is empty. Done with an error is for
// good: dir may be part of a mount.
func (c *Clone) buildDelta(ctx context.Context, s Spec, l *meta.Layer, dir string) (done bool, err error) {
	if s.Files.Submodules != volume.SubmodulesNone {
		return false, nil // each is a repository of its own
	}
	base := c.baseOf(l)
	if base == nil {
		return false, nil
	}
	defer func() {
		if !done || err != nil {
			c.letGo(c.trees, base.Chain...)
		}
	}()
	build, err := tempDir(filepath.Dir(dir))
	if err != nil {
		return false, err
	}
	mounted := false
	defer func() {
		if mounted {
			return // the next start's sweep detaches it first
		}
		if _, err := c.m.Trash.Put(build, "build"); err != nil {
			c.m.Log.WithError(err).WithField("clone", c.key).Warn("what a build leaves stays until the next start")
		}
	}()
	work, target := filepath.Join(build, "work"), filepath.Join(build, "tree")
	if err := errors.Join(os.Mkdir(work, 0o700), os.Mkdir(target, 0o755), os.Chown(dir, int(s.UID), int(s.GID))); err != nil {
		return false, err
	}
	spec := overlay.Spec{Source: "helmdeck-repos", Lower: c.trees.paths(base.Chain), Upper: dir, Work: work, Target: target, Volatile: true}
	if err := overlay.Mount(spec); err != nil {
		return false, err
	}
	mounted = true
	failpoint.Hit("clone/delta/mounted")
	usable, err := c.moveTo(ctx, s, l, dir, target)
	failpoint.Hit("clone/delta/moved")
	// The mount is gone for good before its upper becomes a lower layer.
	free, detachErr := overlay.Detach(target)
	if detachErr == nil {
		detachErr = free()
	}
	if detachErr != nil {
		return true, errors.Join(err, detachErr)
	}
	mounted = false
	failpoint.Hit("clone/delta/detached")
	if err != nil {
		return false, err
	}
	if !usable {
		return false, empty(dir)
	}
	l.Chain = append([]string{l.ID}, base.Chain...)
	return true, nil
}

// moveTo moves the checkout at target to another commit. It is not usable
// when attributes have changed: they say how files are written that have not.
func (c *Clone) moveTo(ctx context.Context, s Spec, l *meta.Layer, upper, target string) (usable bool, err error) {
	co := c.checkoutOf(s, l.Commit, target)
	co.Onto = true
	if err := c.m.Git.Checkout(ctx, co); err != nil {
		return false, err
	}
	if err := c.fillLFS(ctx, s, c.rule(s), co); err != nil {
		return false, err
	}
	written, attributes, err := writtenIn(upper)
	if err != nil || attributes {
		return false, err
	}
	if err := git.SettleTimes(co, func(name string) bool { return written[name] }); err != nil {
		return false, err
	}
	l.TracksCache, err = git.Tracks(co, CacheLink)
	return err == nil, err
}

// writtenIn returns the files in an upper that only git has written to, and
// whether a .gitattributes is among them, or a whiteout of one.
func writtenIn(upper string) (written map[string]bool, attributes bool, err error) {
	written = make(map[string]bool)
	err = filepath.WalkDir(upper, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(upper, path)
		if err != nil {
			return err
		}
		switch {
		case name == ".git":
			return fs.SkipDir
		case d.IsDir():
			return nil
		case d.Name() == ".gitattributes":
			attributes = true
		}
		written[name] = true
		return nil
	})
	return written, attributes, err
}

// baseOf returns the tree to build l on, the newest of the same shape if that is
// not too deep. Its chain is held.
func (c *Clone) baseOf(l *meta.Layer) (base *meta.Layer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var newest time.Time
	for _, t := range c.trees.known {
		if t.Shape == l.Shape && t.Shape != "" && t.Modules == "" && t.CreatedAt.After(newest) {
			newest, base = t.CreatedAt, &t
		}
	}
	if base == nil || len(base.Chain) >= maxChain {
		return nil
	}
	c.trees.hold(base.Chain...)
	return base
}

// empty removes what is in a directory that only we and git have written to.
func empty(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
	}
	return err
}
