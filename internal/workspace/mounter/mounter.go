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

	"github.com/helmdeck/repos/internal/clone"
	"github.com/helmdeck/repos/internal/credential/handout"
	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/disk/durable"
	"github.com/helmdeck/repos/internal/disk/project"
	"github.com/helmdeck/repos/internal/disk/trash"
	"github.com/helmdeck/repos/internal/failpoint"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/overlay"
	"github.com/helmdeck/repos/internal/place"
	"github.com/helmdeck/repos/internal/workspace/upper"
	"github.com/helmdeck/repos/internal/workspace/warm"
)

// ManifestName is the file in a workspace's directory that has its record.
const ManifestName = "manifest.json"

// Config is what a Mounter works with.
type Config struct {
	Root     string // the data directory
	Trash    *trash.Trash
	Layers   Syncer
	Warm     Warm
	Features overlay.Features
	Projects *project.Quotas
	// Context is the SELinux context of the overlays; empty for none.
	Context string
	Log     *logrus.Logger
	Now     func() time.Time
}

// Syncer is the part of *clone.Manager that makes layers durable, with everything else in the data directory.
type Syncer interface {
	Sync(ctx context.Context) error
}

// Warm is the part of *warm.Manager that says which warm layers a workspace stands on, and makes them durable.
type Warm interface {
	Lower(clone string, paths []meta.WarmPath) []string
	AwaitDurable(ctx context.Context, clone string, paths []meta.WarmPath) error
}

// Mounter makes the directories of workspaces, and mounts and detaches their overlays. It has
// no state.
type Mounter struct{ config Config }

// New returns a Mounter.
func New(c Config) *Mounter { return &Mounter{c} }

// Dir returns the directory of a workspace.
func (m *Mounter) Dir(rec meta.Workspace) string {
	return place.Workspace(m.config.Root, rec.Clone, rec.ID)
}

// Upper returns the upper of a workspace.
func (m *Mounter) Upper(rec meta.Workspace) string {
	if len(rec.Merged) > 0 {
		return m.merged(rec)
	}
	return m.unmerged(rec)
}

// unmerged returns the upper that a workspace has until it is merged with what it stands on, and merged the one after that.
func (m *Mounter) unmerged(rec meta.Workspace) string { return filepath.Join(m.Dir(rec), "upper") }

func (m *Mounter) merged(rec meta.Workspace) string { return filepath.Join(m.Dir(rec), "merged") }

func (m *Mounter) work(rec meta.Workspace) string { return filepath.Join(m.Dir(rec), "work") }

// probe returns the scratch directory of overlay.Busy.
func (m *Mounter) probe(rec meta.Workspace) string { return filepath.Join(m.Dir(rec), "probe") }

// Manifest returns the path of a workspace's manifest.
func (m *Mounter) Manifest(rec meta.Workspace) string { return filepath.Join(m.Dir(rec), ManifestName) }

// Helper returns the directory that is bound at handout.Mount.
func (m *Mounter) Helper(rec meta.Workspace) string { return filepath.Join(m.Dir(rec), "helper") }

// Mountpoint returns where a workspace is mounted.
func (m *Mounter) Mountpoint(rec meta.Workspace) string {
	return filepath.Join(overlay.PointsDir(m.config.Root), rec.ID)
}

// makeDirs makes the directories of a new workspace, and its manifest.
func (m *Mounter) makeDirs(ctx context.Context, rec meta.Workspace) error {
	if err := m.mkdirs(rec, m.Dir(rec), m.work(rec), m.Upper(rec)); err != nil {
		return err
	}
	if err := m.assign(ctx, rec); err != nil {
		return err
	}
	manifest, err := json.Marshal(rec)
	if err != nil {
		return err
	}
	// Until the record is committed, a crash leaves a directory that the sweep removes: a
	// part of a file does no harm.
	return os.WriteFile(m.Manifest(rec), manifest, 0o600)
}

// mkdirs makes directories, and then those of the probe: now, while there is room, because the end of a workspace must
// work on a full disk too.
func (m *Mounter) mkdirs(rec meta.Workspace, dirs ...string) error {
	for _, d := range append(dirs, overlay.BusyDirs(m.probe(rec))...) {
		if err := os.Mkdir(d, 0o700); err != nil {
			return err
		}
	}
	return nil
}

// MountNew makes the workspace's directory and mounts the workspace. A kept workspace is
// on disk when it returns, with its layers. Others are not synced, because they are worth
// nothing after a crash of the machine.
func (m *Mounter) MountNew(ctx context.Context, rec meta.Workspace, c *clone.Clone, co *clone.Checkout) error {
	if err := m.makeDirs(ctx, rec); err != nil {
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
	failpoint.Hit("mounter/open/made")
	if rec.Kept() {
		err := m.config.Warm.AwaitDurable(ctx, rec.Clone, rec.Warm)
		switch {
		case err != nil:
		case co.Tree.Durable && co.GitLayer.Durable:
			err = m.sync(rec)
		default:
			err = m.config.Layers.Sync(ctx) // which syncs the directory too
		}
		if err != nil {
			return err
		}
		failpoint.Hit("mounter/open/durable")
	}
	if err := overlay.MakePoint(overlay.PointsDir(m.config.Root), rec.ID); err != nil {
		return err
	}
	if err := overlay.Mount(m.overlay(c, rec)); err != nil {
		return err
	}
	failpoint.Hit("mounter/open/mounted")
	if err := m.BindHelper(rec); err != nil {
		return err
	}
	return m.limit(rec, rec.Limit)
}

// sync writes the directory of a new workspace to disk.
func (m *Mounter) sync(rec meta.Workspace) error {
	dir := m.Dir(rec)
	return errors.Join(durable.SyncTree(dir), durable.SyncDir(filepath.Dir(dir)))
}

// overlay returns the overlay of a workspace on the layers of its clone.
func (m *Mounter) overlay(c *clone.Clone, rec meta.Workspace) overlay.Spec {
	return overlay.Spec{
		Source: overlay.Source, Lower: slices.Concat(m.From(rec), m.ownedPacks(c, rec), m.Lower(c, rec)),
		Upper: m.Upper(rec), Work: m.work(rec), Target: m.Mountpoint(rec),
		Volatile: m.config.Features.Volatile && !rec.Kept(), Metacopy: rec.Metacopy,
		Context: m.config.Context,
	}
}

// BindHelper binds the directory with the credential helper and its socket into a mounted workspace,
// read-only, if the volume hands out its credential.
func (m *Mounter) BindHelper(rec meta.Workspace) error {
	if !handout.Wanted(rec.Options) {
		return nil
	}
	return overlay.Bind(m.Helper(rec), m.Mountpoint(rec), handout.Mount, true)
}

// RemoveNew removes what MountNew, MountFrom or MakeCopy may have made.
func (m *Mounter) RemoveNew(ctx context.Context, rec meta.Workspace) error {
	release, err := m.Detach(ctx, rec)
	if err != nil {
		return err
	}
	defer release()
	return m.config.Trash.Clear(m.Dir(rec), "workspace", disk.Size{})
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
			m.config.Log.WithContext(ctx).WithError(err).WithField("workspace", rec.ID).Warn("close a detached workspace")
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
	err := m.config.Trash.Retry(func() (err error) {
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

// ErrCopied is Complete's error about a workspace whose upper, or one of whose layers, is a copy
// without extended attributes.
var ErrCopied = errors.New("the data directory was copied without extended attributes, so this copy does not have all of what the workspace had: " +
	"stop the engine and copy the directory again with them, into an empty one (rsync -aHAX, or cp -a); or give the workspace up: remove the volume or the checkpoint")

// Complete returns an error if the upper or a layer of a workspace is gone, and ErrCopied if one of
// them is not what it was.
func (m *Mounter) Complete(c *clone.Clone, rec meta.Workspace) error {
	if c == nil {
		return fmt.Errorf("its clone is gone: %w", os.ErrNotExist)
	}
	for _, dir := range slices.Concat(m.ownedPacks(c, rec), m.Lower(c, rec), m.From(rec), []string{m.Upper(rec)}) {
		whole, err := overlay.Marked(dir)
		switch {
		case err != nil:
			return fmt.Errorf("a directory that it needs is gone: %w", err)
		case !whole:
			return ErrCopied
		}
	}
	if c.Trees.Replaced(rec.Chain) {
		return ErrCopied
	}
	return nil
}

// ownedPacks returns what is mounted on top of Lower: nothing, if the mount can't read it.
func (m *Mounter) ownedPacks(c *clone.Clone, rec meta.Workspace) []string {
	if !rec.Metacopy {
		return nil
	}
	return []string{c.Trees.OwnedPacks(rec.GitLayer)}
}

// Lower returns all layers of a workspace that have data, topmost first: the git layer, the
// warm layers, the layers of the tree. It returns nil if the clone is unknown.
func (m *Mounter) Lower(c *clone.Clone, rec meta.Workspace) []string {
	if c == nil {
		return nil
	}
	return slices.Insert(c.Trees.Lower(rec.Chain, rec.GitLayer), 1, m.config.Warm.Lower(rec.Clone, rec.Warm)...)
}

// From returns the uppers of the checkpoints that a workspace stands on, topmost first. They are on top of all layers.
func (m *Mounter) From(rec meta.Workspace) (dirs []string) {
	for i, id := range rec.From {
		of := meta.Workspace{ID: id, Clone: rec.Clone}
		if rec.OnMerged && i == len(rec.From)-1 {
			dirs = append(dirs, m.merged(of))
		} else {
			dirs = append(dirs, m.unmerged(of))
		}
	}
	return dirs
}

// Changed is upper.Changed for a workspace that nobody uses. With promoted, what it has at warm paths that others may get is
// no change.
func (m *Mounter) Changed(ctx context.Context, c *clone.Clone, rec meta.Workspace, promoted bool) (bool, error) {
	lower, paths := append(m.Lower(c, rec), m.From(rec)...), []string(nil)
	if promoted && c != nil {
		ended := m.Ended(c, rec)
		for _, p := range ended.Dirs() { // and no checkpoint is below it
			lower, paths = ended.Tree, append(paths, p.Path)
		}
	}
	return upper.Changed(ctx, m.Upper(rec), rec, lower, paths)
}

// Carried returns the warm paths of a workspace that others may get. A workspace on a checkpoint carries over its cache
// alone: its warm directories have what the checkpoint has there too.
func Carried(rec meta.Workspace) []meta.WarmPath {
	if len(rec.From)+len(rec.Merged) == 0 {
		return rec.Warm
	}
	return slices.DeleteFunc(slices.Clone(rec.Warm), func(p meta.WarmPath) bool { return !warm.IsCache(p) })
}

// Ended describes what a workspace has, for those who carry it over to others.
func (m *Mounter) Ended(c *clone.Clone, rec meta.Workspace) warm.Ended {
	var leave func(ctx context.Context, path string) error
	if rec.Project != 0 {
		leave = func(ctx context.Context, path string) error { return m.config.Projects.Move(ctx, path, 0) }
	}
	return warm.Ended{
		Leave: leave,
		Clone: rec.Clone, Upper: m.Upper(rec), UID: rec.UID, GID: rec.GID, Ref: rec.Ref, Text: rec.Options["warm_key"], Commit: rec.Commit,
		Paths: Carried(rec), Tree: c.Trees.Lower(rec.Chain, rec.GitLayer), Lower: append(m.From(rec), m.Lower(c, rec)...),
	}
}

// Mounted returns the IDs of the workspaces that are mounted, and removes the mount points that
// a process that died has left.
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
