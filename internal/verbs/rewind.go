package verbs

import (
	"context"
	"errors"
	"fmt"

	"github.com/helmdeck/repos/internal/clone"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/volume"
	"github.com/helmdeck/repos/internal/workspace"
	"github.com/helmdeck/repos/internal/workspace/admission"
)

// Rewind makes a volume with mode=keep begin again with a checkpoint of the same subject and repository. What it had becomes
// a checkpoint. The errors are those of workspace.Manager.Rewind, or say that there is no such volume or
// checkpoint, or that the volume keeps nothing.
func (v *Volumes) Rewind(ctx context.Context, name, checkpoint string) (rec meta.Workspace, err error) {
	h, err := v.enter(name)
	if err != nil {
		return rec, err
	}
	defer v.left(h)
	if h.opts.Mode != volume.ModeKeep {
		return rec, fail(Invalid, fmt.Errorf("volume %q has mode=%s, and only one with mode=keep has something to go back from: "+
			"make another volume that begins with the checkpoint: docker repos checkpoints fork %s", name, h.opts.Mode, checkpoint))
	}
	of, err := v.config.Workspaces.Checkpoint(checkpoint, h.opts.Subject)
	if err != nil {
		return rec, err
	}
	if err := volume.CheckFrom(h.opts, of.Options); err != nil {
		return rec, fail(Invalid, fmt.Errorf("volume %q: %w", name, err))
	}
	opts := h.opts
	opts.From = checkpoint
	limit, refused := v.config.Limits.of(opts)
	if refused != nil {
		return rec, fail(Denied, fmt.Errorf("volume %q: %w", name, refused))
	}
	release, err := h.clone.Use(ctx)
	if err != nil {
		return rec, err
	}
	defer release()
	err = h.clone.WithRoom(ctx, clone.FewFiles, func() (err error) {
		rec, err = v.config.Workspaces.Rewind(ctx, workspace.Request{Lease: Lease{Volume: name}, Options: opts, Clone: h.clone, Limit: limit})
		return err
	})
	if _, full := errors.AsType[*admission.BudgetError](err); full {
		err = fail(Exhausted, fmt.Errorf("volume %q: %w", name, err))
	}
	return rec, err
}
