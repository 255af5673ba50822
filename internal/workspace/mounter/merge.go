package mounter

import (
	"context"
	"errors"
	"os"

	"github.com/helmdeck/repos/internal/clone"
	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/failpoint"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/workspace/replica"
	"github.com/helmdeck/repos/internal/workspace/upper"
)

// Merge merges the upper of a checkpoint and those of all that it stands on. The result is beside its upper, and on disk.
// It is the checkpoint's upper when the record has Merged; an error leaves nothing. Only one Merge of a checkpoint may run
// at a time; it may be removed meanwhile.
func (m *Mounter) Merge(ctx context.Context, c *clone.Clone, rec meta.Workspace, o replica.Options) (r replica.Result, err error) {
	if err := m.Complete(c, rec); err != nil {
		return r, err
	}
	to := m.merged(rec)
	clear := func() error { // the rest is links
		return m.config.Trash.Clear(to, "merged", r.Made.Add(disk.Size{Inodes: 1}))
	}
	if err := clear(); err != nil { // a crash may have left it
		return r, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, clear())
		}
	}()
	if err := os.Mkdir(to, 0o700); err != nil {
		return r, err
	}
	failpoint.Hit("mounter/merge/made")
	if r, err = upper.Merge(ctx, append([]string{m.Upper(rec)}, m.From(rec)...), to, o); err != nil {
		return r, err
	}
	failpoint.Hit("mounter/merge/merged")
	return r, m.config.Layers.Sync(ctx)
}

// RemoveUnmerged removes the upper that a merged checkpoint had before, on which nothing stands any more. Most of
// its files have links in the merged one, so it frees little.
func (m *Mounter) RemoveUnmerged(rec meta.Workspace) error {
	return m.config.Trash.Clear(m.unmerged(rec), "unmerged", disk.Size{Inodes: 1})
}
