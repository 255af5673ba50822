package mounter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/cache"
	"github.com/helmdeck/repos/internal/clone"
	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/durable"
	"github.com/helmdeck/repos/internal/failpoint"
	"github.com/helmdeck/repos/internal/handout"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/overlay"
	"github.com/helmdeck/repos/internal/trash"
	"github.com/helmdeck/repos/internal/tree"
	"github.com/helmdeck/repos/internal/upper"
	"github.com/helmdeck/repos/internal/volume"
	"github.com/helmdeck/repos/internal/warm"
)

// ManifestName is the file in a workspace's directory that has its record.
const ManifestName = "manifest.json"

// Config is what a Mounter works with.
type Config struct {
	Root     string // the data directory
	Trash    *trash.Trash
	Clones   *clone.Manager
	Warm     *warm.Manager // the warm layers that workspaces stand on
	Features overlay.Features
	// Context is the SELinux context of the overlays; empty for none.
	Context string
	Log     *logrus.Logger
	Now     func() time.Time
}

// Mounter makes the directories of workspaces, and mounts and detaches their overlays. It has
// no state.
type Mounter struct{ Config }

// Dir returns the directory of a workspace.
func (m *Mounter) Dir(rec meta.Workspace) string {
	return filepath.Join(m.Root, "clones", rec.Clone, "workspaces", rec.ID)
}

// Upper returns the upper of a workspace.
func (m *Mounter) Upper(rec meta.Workspace) string { return filepath.Join(m.Dir(rec), "upper") }

func (m *Mounter) work(rec meta.Workspace) string { return filepath.Join(m.Dir(rec), "work") }

// probe returns the scratch directory of overlay.Busy.
func (m *Mounter) probe(rec meta.Workspace) string { return filepath.Join(m.Dir(rec), "probe") }

// Manifest returns the path of a workspace's manifest.
func (m *Mounter) Manifest(rec meta.Workspace) string { return filepath.Join(m.Dir(rec), ManifestName) }

// Helper returns the directory that is bound at handout.Mount.
func (m *Mounter) Helper(rec meta.Workspace) string { return filepath.Join(m.Dir(rec), "helper") }

// Mountpoint returns where a workspace is mounted.
func (m *Mounter) Mountpoint(rec meta.Workspace) string {
	return filepath.Join(overlay.PointsDir(m.Root), rec.ID)
}

// MountNew makes the workspace's directory and mounts the workspace. A kept workspace is
// on disk when it returns, with its layers. Others are not synced, because they are worth
// nothing after a crash of the machine.
func (m *Mounter) MountNew(ctx context.Context, rec meta.Workspace, c *clone.Clone, co *clone.Checkout) error {
	dir := m.Dir(rec)
	// The probe now, while there is room: the end of a workspace must work on a full disk too.
	for _, d := range append([]string{dir, m.work(rec)}, overlay.BusyDirs(m.probe(rec))...) {
		err := os.Mkdir(d, 0o700)
		if d == dir && errors.Is(err, fs.ErrNotExist) { // an earlier version could remove the parent
			err = errors.Join(durable.MkdirAll(filepath.Dir(dir), 0o755), os.Mkdir(dir, 0o700))
		}
		if err != nil {
			return err
		}
	}
	manifest, err := json.Marshal(rec)
	if err != nil {
		return err
	}
	// Until the record is committed, a crash leaves a directory that the sweep removes: a
	// part of a file does no harm.
	if err := os.WriteFile(m.Manifest(rec), manifest, 0o600); err != nil {
		return err
	}
	if handout.Wanted(rec.Options) {
		if err := handout.Make(m.Helper(rec)); err != nil {
			return err
		}
	}
	if err := upper.Make(m.Upper(rec), rec, m.Lower(c, rec)[0], co.Tree.TracksCache); err != nil {
		return err
	}
	failpoint.Hit("workspace/open/made")
	if rec.Kept() {
		err := m.Warm.Settle(ctx, rec.Clone, rec.Warm)
		switch {
		case err != nil:
		case co.Tree.Durable && co.GitLayer.Durable:
			err = errors.Join(durable.SyncTree(dir), durable.SyncDir(filepath.Dir(dir)))
		default:
			err = m.Clones.Sync(ctx) // which syncs the directory too
		}
		if err != nil {
			return err
		}
		failpoint.Hit("workspace/open/settled")
	}
	if err := overlay.MakePoint(overlay.PointsDir(m.Root), rec.ID); err != nil {
		return err
	}
	if err := overlay.Mount(m.overlay(c, rec)); err != nil {
		return err
	}
	failpoint.Hit("workspace/open/mounted")
	return errors.Join(m.BindCache(c, rec), m.BindHelper(rec))
}

// overlay returns the overlay of a workspace on the layers of its clone.
func (m *Mounter) overlay(c *clone.Clone, rec meta.Workspace) overlay.Spec {
	return overlay.Spec{
		Source: overlay.Source, Lower: m.Lower(c, rec),
		Upper: m.Upper(rec), Work: m.work(rec), Target: m.Mountpoint(rec),
		Volatile: m.Features.Volatile && !rec.Kept(), Metacopy: rec.Metacopy, Redirects: rec.Redirects,
		Context: m.Context,
	}
}

// BindCache binds the cache of a clone into a mounted workspace, if the volume asks for it.
func (m *Mounter) BindCache(c *clone.Clone, rec meta.Workspace) error {
	if !upper.HasCache(rec) {
		return nil
	}
	dir, err := cache.Ensure(filepath.Join(c.Dir, "cache"), int(rec.UID), int(rec.GID))
	if err != nil {
		return fmt.Errorf("prepare the cache: %w", err)
	}
	return overlay.Bind(dir, m.Mountpoint(rec), tree.CacheMount, rec.Options["cache"] == string(volume.CacheReadonly))
}

// BindHelper binds the directory with the credential helper and its socket into a mounted workspace,
// read-only, if the volume hands out its credential.
func (m *Mounter) BindHelper(rec meta.Workspace) error {
	if !handout.Wanted(rec.Options) {
		return nil
	}
	return overlay.Bind(m.Helper(rec), m.Mountpoint(rec), handout.Mount, true)
}

// Missing says why a workspace lacks what its volume asks for; empty for what it has. Containers read
// it, so it names nothing of the host.
type Missing struct{ Cache, Helper string }

// MountAgain mounts a parked workspace that nobody uses, on exactly the layers of its record.
func (m *Mounter) MountAgain(ctx context.Context, c *clone.Clone, rec meta.Workspace) (Missing, error) {
	switch err := m.Complete(c, rec); {
	case errors.Is(err, os.ErrNotExist):
		return Missing{}, fmt.Errorf("%w: what the workspace had is lost; remove the volume and create it again", err)
	case err != nil:
		return Missing{}, err
	}
	if (rec.Metacopy || rec.Redirects) && !m.Features.Metacopy {
		return Missing{}, errors.New("it was written with metacopy, which this kernel lacks: start the kernel that wrote it")
	}
	rec.NoCache, rec.NoHelper = "", ""
	written, err := upper.Describe(m.Upper(rec), rec, m.Now())
	if err != nil {
		return Missing{}, fmt.Errorf("write .git/helmdeck.json: %w", err)
	}
	if handout.Wanted(rec.Options) {
		if err := handout.Make(m.Helper(rec)); err != nil {
			return Missing{}, err
		}
	}
	if err := overlay.MakePoint(overlay.PointsDir(m.Root), rec.ID); err != nil {
		return Missing{}, err
	}
	if err := overlay.Mount(m.overlay(c, rec)); err != nil {
		return Missing{}, err
	}
	// The containers changed the directories where these are bound: they don't get them.
	log := m.Log.WithContext(ctx).WithField("volume", rec.Volume)
	if err := m.BindCache(c, rec); err != nil {
		log.WithError(err).Warn("a kept workspace is mounted without its cache")
		rec.NoCache = CacheMisplaced
	}
	if err := m.BindHelper(rec); err != nil {
		log.WithError(err).Warn("a kept workspace is mounted without the credential helper")
		rec.NoHelper = HelperMisplaced
	}
	if written && rec.NoCache+rec.NoHelper != "" { // through the mount: the upper is in use
		if _, err := upper.Describe(m.Mountpoint(rec), rec, m.Now()); err != nil {
			log.WithError(err).Warn("say in .git/helmdeck.json what a kept workspace lacks")
		}
	}
	return Missing{rec.NoCache, rec.NoHelper}, nil
}

// CacheMisplaced and HelperMisplaced tell a container that something could not be bound. The error
// itself is only in the log, because it names paths of the host.
const (
	CacheMisplaced  = "it could not be mounted at " + tree.CacheMount + misplaced
	HelperMisplaced = "it could not be mounted at " + handout.Mount + misplaced
	misplaced       = ", which has to be a directory: the plugin's log says more"
)

// RemoveNew removes what MountNew may have made.
func (m *Mounter) RemoveNew(ctx context.Context, rec meta.Workspace) error {
	release, err := m.Detach(ctx, rec)
	if err != nil {
		return err
	}
	defer release()
	return m.Trash.Clear(m.Dir(rec), "workspace", disk.Size{})
}

// Detach removes a workspace's overlay from the mount table, if it is there, and its
// mount point. release, which is never nil, tears the overlay down. That takes longer the
// more changes the upper has.
func (m *Mounter) Detach(ctx context.Context, rec meta.Workspace) (release func(), err error) {
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

// Busy asks the kernel whether any mount of the workspace's upper is left, in any mount
// namespace. A missing upper is not busy.
func (m *Mounter) Busy(rec meta.Workspace) (bool, error) {
	dir := m.Upper(rec)
	if _, err := os.Lstat(dir); errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	var busy bool
	err := m.Trash.Retry(func() (err error) {
		busy, err = overlay.Busy(dir, m.probe(rec))
		return err
	})
	if errors.Is(err, os.ErrNotExist) {
		if _, gone := os.Lstat(dir); errors.Is(gone, os.ErrNotExist) {
			return false, nil // it was free, and was removed meanwhile
		}
	}
	return busy, err
}

// Complete returns an error if the upper or a layer of an unmounted workspace is gone.
func (m *Mounter) Complete(c *clone.Clone, rec meta.Workspace) error {
	if c == nil {
		return fmt.Errorf("its clone is gone: %w", os.ErrNotExist)
	}
	for _, dir := range append(m.Lower(c, rec), m.Upper(rec)) {
		if _, err := os.Lstat(dir); err != nil {
			return fmt.Errorf("a directory that it needs is gone: %w", err)
		}
	}
	return nil
}

// Lower returns all layers of a workspace, topmost first: the git layer, the warm layers,
// the layers of the tree. It returns nil if the clone is unknown.
func (m *Mounter) Lower(c *clone.Clone, rec meta.Workspace) []string {
	if c == nil {
		return nil
	}
	return slices.Insert(c.Trees.Lower(rec.Chain, rec.GitLayer), 1, m.Warm.Lower(rec.Clone, rec.Warm)...)
}

// Mounted returns the IDs of the workspaces that are mounted. An earlier version, as a
// process on the host, mounted workspaces in their own directories. Those are moved to
// their mount points.
func Mounted(dataDir string) (map[string]bool, error) {
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
