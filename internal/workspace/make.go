package workspace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/helmdeck/repos/internal/clone"
	"github.com/helmdeck/repos/internal/durable"
	"github.com/helmdeck/repos/internal/failpoint"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/overlay"
	"github.com/helmdeck/repos/internal/tree"
	"github.com/helmdeck/repos/internal/volume"
)

// make makes the workspace's directory and mounts it. What is to be kept is on
// disk when it returns; nothing of another workspace is synced, for it is worth
// nothing after a crash of the machine.
func (m *Manager) make(ctx context.Context, rec meta.Workspace, r Request) error {
	dir := m.dir(rec)
	for _, d := range []string{dir, filepath.Join(dir, "work")} {
		if err := os.Mkdir(d, 0o700); err != nil {
			return err
		}
	}
	// While there is room: it has to end on a full disk too.
	if err := overlay.PrepareBusy(filepath.Join(dir, "probe")); err != nil {
		return err
	}
	if err := m.putManifest(rec, false); err != nil {
		return err
	}
	if err := m.fillUpper(rec, r); err != nil {
		return err
	}
	failpoint.Hit("workspace/open/made")
	if isKept(rec) {
		if err := m.settle(ctx, rec, r.Checkout); err != nil {
			return err
		}
		failpoint.Hit("workspace/open/settled")
	}
	if err := m.mount(rec, m.lower(rec, r.Checkout.Lower)); err != nil {
		return err
	}
	failpoint.Hit("workspace/open/mounted")
	return m.bindCache(rec, r.Clone, r.Options)
}

// settle has a new workspace on disk, with the layers that it stands on.
func (m *Manager) settle(ctx context.Context, rec meta.Workspace, co *clone.Checkout) error {
	dir := m.dir(rec)
	if err := m.Warm.Settle(ctx, rec.Clone, rec.Warm); err != nil {
		return err
	}
	if !co.Tree.Durable || !co.GitLayer.Durable {
		return m.Clones.Sync(ctx) // which takes the directory along
	}
	return errors.Join(durable.SyncTree(dir), durable.SyncDir(filepath.Dir(dir)))
}

// fillUpper makes the upper with what is this workspace's own in it. No container
// has seen it yet: paths in it are still ours.
func (m *Manager) fillUpper(rec meta.Workspace, r Request) error {
	upper := m.upper(rec)
	data, err := aboutOf(rec, r.Options, rec.MountedAt)
	if err != nil {
		return err
	}
	paths := []string{"", ".git", filepath.Join(".git", aboutName)}
	for _, d := range paths[:2] {
		if err := os.Mkdir(filepath.Join(upper, d), 0o755); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(upper, paths[2]), data, 0o644); err != nil {
		return err
	}
	if r.Options.Cache != volume.CacheOff {
		if err := os.Mkdir(filepath.Join(upper, tree.CacheMount), 0o755); err != nil {
			return err
		}
		paths = append(paths, tree.CacheMount)
		// A .hdcache that the repository tracks is the repository's.
		if !r.Checkout.Tree.TracksCache {
			if err := os.Symlink(tree.CacheMount, filepath.Join(upper, tree.CacheLink)); err != nil {
				return err
			}
			paths = append(paths, tree.CacheLink)
		}
	}
	for _, p := range paths {
		if err := os.Lchown(filepath.Join(upper, p), int(rec.UID), int(rec.GID)); err != nil {
			return err
		}
	}
	return nil
}

// mount mounts a workspace's overlay on its lower layers, topmost first.
func (m *Manager) mount(rec meta.Workspace, lower []string) error {
	if err := overlay.MakePoint(overlay.PointsDir(m.Root), rec.ID); err != nil {
		return err
	}
	return overlay.Mount(overlay.Spec{
		Source: "helmdeck-repos", Lower: lower,
		Upper: m.upper(rec), Work: filepath.Join(m.dir(rec), "work"), Target: m.Mountpoint(rec),
		Volatile: m.Features.Volatile && !isKept(rec), Metacopy: rec.Metacopy, Redirects: rec.Redirects,
		Context: m.Context,
	})
}

// bindCache binds the cache of a clone into a workspace that is mounted, if its
// volume has one.
func (m *Manager) bindCache(rec meta.Workspace, c *clone.Clone, o volume.Options) error {
	if o.Cache == volume.CacheOff {
		return nil
	}
	cache, err := ensureCache(filepath.Join(c.Dir, "cache"), int(rec.UID), int(rec.GID))
	if err != nil {
		return fmt.Errorf("prepare the cache: %w", err)
	}
	bind := overlay.Bind
	if o.Cache == volume.CacheReadonly {
		bind = overlay.BindReadOnly
	}
	return bind(cache, m.Mountpoint(rec), tree.CacheMount)
}
