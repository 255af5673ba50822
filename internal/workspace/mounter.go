package workspace

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/clone"
	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/durable"
	"github.com/helmdeck/repos/internal/failpoint"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/overlay"
	"github.com/helmdeck/repos/internal/tree"
	"github.com/helmdeck/repos/internal/volume"
)

// mounter makes the directories of workspaces, and mounts and detaches their overlays. It
// has no state.
type mounter struct{ *Config }

// mountNew makes the workspace's directory and mounts the workspace. A kept workspace is
// on disk when it returns, with its layers. Others are not synced, because they are worth
// nothing after a crash of the machine.
func (m *mounter) mountNew(ctx context.Context, rec meta.Workspace, r Request) error {
	dir := m.dir(rec)
	// An earlier version could remove this directory of a clone that it kept.
	if err := durable.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	for _, d := range []string{dir, filepath.Join(dir, "work")} {
		if err := os.Mkdir(d, 0o700); err != nil {
			return err
		}
	}
	// Now, while there is room: the end of a workspace must work on a full disk too.
	if err := overlay.PrepareBusy(filepath.Join(dir, "probe")); err != nil {
		return err
	}
	manifest, err := json.Marshal(rec)
	if err != nil {
		return err
	}
	// Until the record is committed, a crash leaves a directory that the sweep removes: a
	// part of a file does no harm.
	if err := os.WriteFile(m.ManifestPath(rec), manifest, 0o600); err != nil {
		return err
	}
	if err := m.fillUpper(rec, r.Checkout.Tree.TracksCache); err != nil {
		return err
	}
	failpoint.Hit("workspace/open/made")
	if isKept(rec) {
		err := m.Warm.Settle(ctx, rec.Clone, rec.Warm)
		switch {
		case err != nil:
		case r.Checkout.Tree.Durable && r.Checkout.GitLayer.Durable:
			err = errors.Join(durable.SyncTree(dir), durable.SyncDir(filepath.Dir(dir)))
		default:
			err = m.Clones.Sync(ctx) // which syncs the directory too
		}
		if err != nil {
			return err
		}
		failpoint.Hit("workspace/open/settled")
	}
	if err := m.mount(r.Clone, rec); err != nil {
		return err
	}
	failpoint.Hit("workspace/open/mounted")
	return m.bindCache(r.Clone, rec)
}

// fillUpper makes the upper with the workspace's own files. No container has seen the
// upper yet, so paths in it are safe to use.
func (m *mounter) fillUpper(rec meta.Workspace, tracksCache bool) error {
	upper := m.upper(rec)
	made := []string{upper, filepath.Join(upper, ".git")}
	if hasCache(rec) {
		made = append(made, filepath.Join(upper, tree.CacheMount))
	}
	for _, dir := range made {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
	}
	// If the repository tracks a .hdcache, the link is not made.
	if hasCache(rec) && !tracksCache {
		link := filepath.Join(upper, tree.CacheLink)
		if err := os.Symlink(tree.CacheMount, link); err != nil {
			return err
		}
		made = append(made, link)
	}
	text, err := aboutText(rec, rec.MountedAt)
	if err != nil {
		return err
	}
	file := filepath.Join(upper, ".git", aboutName)
	if err := os.WriteFile(file, text, 0o644); err != nil {
		return err
	}
	for _, path := range append(made, file) {
		if err := os.Lchown(path, int(rec.UID), int(rec.GID)); err != nil {
			return err
		}
	}
	return nil
}

// mount mounts a workspace's overlay on the layers of its clone.
func (m *mounter) mount(c *clone.Clone, rec meta.Workspace) error {
	if err := overlay.MakePoint(overlay.PointsDir(m.Root), rec.ID); err != nil {
		return err
	}
	return overlay.Mount(overlay.Spec{
		Source: "helmdeck-repos", Lower: m.lower(c, rec),
		Upper: m.upper(rec), Work: filepath.Join(m.dir(rec), "work"), Target: m.Mountpoint(rec),
		Volatile: m.Features.Volatile && !isKept(rec), Metacopy: rec.Metacopy, Redirects: rec.Redirects,
		Context: m.Context,
	})
}

// hasCache reports whether the volume of a workspace asks for the cache.
func hasCache(rec meta.Workspace) bool { return rec.Options["cache"] != string(volume.CacheOff) }

// bindCache binds the cache of a clone into a mounted workspace, if the volume asks for it.
func (m *mounter) bindCache(c *clone.Clone, rec meta.Workspace) error {
	if !hasCache(rec) {
		return nil
	}
	cache, err := ensureCache(filepath.Join(c.Dir, "cache"), int(rec.UID), int(rec.GID))
	if err != nil {
		return fmt.Errorf("prepare the cache: %w", err)
	}
	return overlay.Bind(cache, m.Mountpoint(rec), tree.CacheMount, rec.Options["cache"] == string(volume.CacheReadonly))
}

// mountAgain mounts a parked workspace that nobody uses, on exactly the layers of its
// record. noCache is why the workspace has no cache; empty if it has what its volume asks
// for.
func (m *mounter) mountAgain(ctx context.Context, c *clone.Clone, rec meta.Workspace) (noCache string, err error) {
	switch err := m.complete(c, rec); {
	case errors.Is(err, os.ErrNotExist):
		return "", fmt.Errorf("%w: what the workspace had is lost; remove the volume and create it again", err)
	case err != nil:
		return "", err
	}
	if (rec.Metacopy || rec.Redirects) && !m.Features.Metacopy {
		return "", errors.New("it was written with metacopy, which this kernel lacks: start the kernel that wrote it")
	}
	rec.NoCache = ""
	written, err := rewriteAbout(m.upper(rec), rec, m.Now())
	if err != nil {
		return "", fmt.Errorf("write .git/helmdeck.json: %w", err)
	}
	if err := m.mount(c, rec); err != nil {
		return "", err
	}
	// The containers changed the directory where the cache is bound: they get no cache.
	if err := m.bindCache(c, rec); err != nil {
		m.Log.WithContext(ctx).WithError(err).WithField("volume", rec.Volume).Warn("a kept workspace is mounted without its cache")
		rec.NoCache = cacheMisplaced
		if written { // through the mount: the upper is in use
			if _, err := rewriteAbout(m.Mountpoint(rec), rec, m.Now()); err != nil {
				m.Log.WithContext(ctx).WithError(err).WithField("volume", rec.Volume).
					Warn("say in .git/helmdeck.json that a kept workspace has no cache")
			}
		}
	}
	return rec.NoCache, nil
}

// cacheMisplaced tells a container that the cache could not be bound. The error itself
// is only in the log, because it names paths of the host.
const cacheMisplaced = "it could not be mounted at " + tree.CacheMount +
	", which has to be a directory: the plugin's log says more"

// removeNew removes what mountNew may have made.
func (m *mounter) removeNew(ctx context.Context, rec meta.Workspace) error {
	release, err := m.detach(ctx, rec)
	if err != nil {
		return err
	}
	defer release()
	return m.Trash.Clear(m.dir(rec), "workspace", disk.Size{})
}

// detach removes a workspace's overlay from the mount table, if it is there, and its
// mount point. release, which is never nil, tears the overlay down. That takes longer the
// more changes the upper has.
func (m *mounter) detach(ctx context.Context, rec meta.Workspace) (release func(), err error) {
	point := m.Mountpoint(rec)
	free, err := overlay.Detach(point)
	if err == nil || errors.Is(err, overlay.ErrNotMounted) {
		_ = os.Remove(point) // an empty directory does no harm
	}
	if errors.Is(err, overlay.ErrNotMounted) || errors.Is(err, os.ErrNotExist) {
		return func() {}, nil
	}
	if err != nil {
		return func() {}, err
	}
	return func() {
		if err := free(); err != nil {
			m.Log.WithContext(ctx).WithError(err).WithField("workspace", rec.ID).Warn("close a detached workspace")
		}
	}, nil
}

// busy asks the kernel whether any mount of the workspace's upper is left, in any mount
// namespace. A missing upper is not busy.
func (m *mounter) busy(rec meta.Workspace) (bool, error) {
	upper := m.upper(rec)
	if _, err := os.Lstat(upper); errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	var busy bool
	err := m.Trash.Retry(func() (err error) {
		busy, err = overlay.Busy(upper, filepath.Join(m.dir(rec), "probe"))
		return err
	})
	if errors.Is(err, os.ErrNotExist) {
		if _, gone := os.Lstat(upper); errors.Is(gone, os.ErrNotExist) {
			return false, nil // it was free, and was removed meanwhile
		}
	}
	return busy, err
}

// complete returns an error if the upper or a layer of an unmounted workspace is gone.
func (m *mounter) complete(c *clone.Clone, rec meta.Workspace) error {
	if c == nil {
		return fmt.Errorf("its clone is gone: %w", os.ErrNotExist)
	}
	for _, dir := range append(m.lower(c, rec), m.upper(rec)) {
		if _, err := os.Lstat(dir); err != nil {
			return fmt.Errorf("a directory that it needs is gone: %w", err)
		}
	}
	return nil
}

// lower returns all layers of a workspace, topmost first: the git layer, the warm layers,
// the layers of the tree. It returns nil if the clone is unknown.
func (m *mounter) lower(c *clone.Clone, rec meta.Workspace) []string {
	if c == nil {
		return nil
	}
	return slices.Insert(c.Trees.Lower(rec.Chain, rec.GitLayer), 1, m.Warm.Lower(rec.Clone, rec.Warm)...)
}

// mountedIDs returns the IDs of the workspaces that are mounted. An earlier version, as a
// process on the host, mounted workspaces in their own directories. Those are moved to
// their mount points.
func mountedIDs(dataDir string) (map[string]bool, error) {
	points, err := overlay.Mounts(dataDir)
	if err != nil {
		return nil, err
	}
	root, err := filepath.EvalSymlinks(dataDir) // as mounts are named
	if err != nil {
		return nil, err
	}
	mounted := make(map[string]bool)
	for _, p := range points {
		rel, err := filepath.Rel(root, p.Path)
		if err != nil {
			return nil, err
		}
		if old, _ := filepath.Match("clones/*/*/workspaces/*/tree", rel); old {
			id := filepath.Base(filepath.Dir(p.Path))
			if err := overlay.MakePoint(overlay.PointsDir(dataDir), id); err != nil {
				return nil, err
			}
			if err := overlay.Move(p.Path, filepath.Join(overlay.PointsDir(dataDir), id)); err != nil {
				return nil, err
			}
			_ = os.Remove(p.Path) // if it stays, it is removed with its workspace
			mounted[id] = true
		}
		if filepath.Dir(p.Path) == overlay.PointsDir(root) {
			mounted[filepath.Base(p.Path)] = true
		}
	}
	return mounted, tidy(dataDir)
}

// tidy removes the mount points on which nothing is mounted, which a process that died
// has left.
func tidy(dataDir string) error {
	entries, err := os.ReadDir(overlay.PointsDir(dataDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		path := filepath.Join(overlay.PointsDir(dataDir), e.Name())
		if removeErr := os.Remove(path); !errors.Is(removeErr, unix.EBUSY) {
			err = errors.Join(err, removeErr)
		}
	}
	return err
}
