package workspace

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/helmdeck/repos/internal/clone"
	"github.com/helmdeck/repos/internal/failpoint"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/overlay"
	"github.com/helmdeck/repos/internal/volume"
)

// about is .git/helmdeck.json: what a program in the container can read of the
// workspace that it is in.
type about struct {
	Volume  string    `json:"volume"`
	Subject string    `json:"subject"`
	Repo    string    `json:"repo"`
	Ref     string    `json:"ref"`             // full name; empty when HEAD is detached at a commit
	Commit  string    `json:"commit"`          // what is checked out
	Reused  bool      `json:"reused"`          // the clone was there before
	Stale   bool      `json:"stale,omitempty"` // the remote did not answer: this is what it last said
	Pulled  string    `json:"pulled_sha"`      // what the remote named for the ref when it was last asked
	Time    time.Time `json:"time"`            // of the mount
}

// make makes the workspace's directory and mounts it. Nothing of it is synced:
// it is worth nothing after a crash of the machine.
func (m *Manager) make(rec meta.Workspace, r Request) error {
	dir, uid, gid := m.dir(rec), int(r.Options.UID), int(r.Options.GID)
	upper := filepath.Join(dir, "upper")
	for _, d := range []string{dir, filepath.Join(dir, "work"), filepath.Join(dir, "tree")} {
		if err := os.Mkdir(d, 0o700); err != nil {
			return err
		}
	}
	manifest, err := json.Marshal(rec)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, manifestName), manifest, 0o600); err != nil {
		return err
	}
	data, err := json.MarshalIndent(about{
		Volume: rec.Volume, Subject: string(r.Options.Subject), Repo: r.Options.Repo.String(),
		Ref: rec.Ref, Commit: rec.Commit, Reused: rec.Reused, Stale: rec.Stale, Pulled: rec.Pulled, Time: rec.MountedAt.UTC(),
	}, "", "  ")
	if err != nil {
		return err
	}
	// The upper starts with what is this workspace's own. No container has seen
	// it yet: paths in it are still ours.
	paths := []string{"", ".git", ".git/helmdeck.json"}
	for _, d := range paths[:2] {
		if err := os.Mkdir(filepath.Join(upper, d), 0o755); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(upper, ".git/helmdeck.json"), append(data, '\n'), 0o644); err != nil {
		return err
	}
	cached := r.Options.Cache != volume.CacheOff
	if cached {
		if err := os.Mkdir(filepath.Join(upper, clone.CacheMount), 0o755); err != nil {
			return err
		}
		paths = append(paths, clone.CacheMount)
		// A .hdcache that the repository tracks is the repository's.
		if !r.Checkout.Tree.TracksCache {
			if err := os.Symlink(clone.CacheMount, filepath.Join(upper, clone.CacheLink)); err != nil {
				return err
			}
			paths = append(paths, clone.CacheLink)
		}
	}
	for _, p := range paths {
		if err := os.Lchown(filepath.Join(upper, p), uid, gid); err != nil {
			return err
		}
	}
	failpoint.Hit("workspace/open/made")
	if err := overlay.Mount(overlay.Spec{
		Source: "helmdeck-repos", Lower: r.Checkout.Lower,
		Upper: upper, Work: filepath.Join(dir, "work"), Target: m.Mountpoint(rec),
		Volatile: m.Features.Volatile, Metacopy: m.Features.Metacopy,
	}); err != nil {
		return err
	}
	failpoint.Hit("workspace/open/mounted")
	if !cached {
		return nil
	}
	cache, err := ensureCache(filepath.Join(r.Clone.Dir(), "cache"), uid, gid)
	if err != nil {
		return fmt.Errorf("prepare the cache: %w", err)
	}
	bind := overlay.Bind
	if r.Options.Cache == volume.CacheReadonly {
		bind = overlay.BindReadOnly
	}
	return bind(cache, m.Mountpoint(rec), clone.CacheMount)
}
