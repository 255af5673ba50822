package workspace

import (
	"context"
	"slices"

	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/volume"
	"github.com/helmdeck/repos/internal/warm"
)

// takeWarm returns the warm paths of a workspace that is to be made, with the
// layers that it stands on, held. It is no reason for a Mount to fail: without
// them a workspace is cold.
func (m *Manager) takeWarm(ctx context.Context, r Request) ([]meta.WarmPath, error) {
	paths := r.Options.Warm.Paths()
	if len(paths) == 0 {
		return nil, nil
	}
	taken, err := m.Warm.Take(ctx, warm.Want{
		Clone: r.Clone.Key, Paths: paths, UID: r.Options.UID, GID: r.Options.GID,
		Ref: r.Checkout.Resolution.Ref, Default: r.Checkout.Default, Text: r.Options.WarmKey,
		ReadOnly: r.Options.Cache == volume.CacheReadonly, Tree: r.Checkout.Lower,
	})
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		m.Log.WithError(err).WithField("volume", r.Volume).Warn("look for warm layers: the workspace begins without")
		for _, p := range paths {
			taken = append(taken, meta.WarmPath{Path: p, LeftOut: "an error: the log says which"})
		}
	}
	return taken, nil
}

// lower returns all layers that a workspace stands on, topmost first: the git
// layer, those that are warm, the tree's. base are those of the clone.
func (m *Manager) lower(rec meta.Workspace, base []string) []string {
	return slices.Insert(slices.Clone(base), 1, m.Warm.Lower(rec.Clone, rec.Warm)...)
}

// publishes reports whether what a workspace has at its warm paths is for the next
// one. What a volume keeps is not: it is the volume's. An upper of an earlier boot
// may not be whole.
func publishes(m *Manager, rec meta.Workspace) bool {
	return len(rec.Warm) > 0 && !isKept(rec) && rec.Boot == m.Clones.Boot
}

// promote publishes the warm paths of a workspace that has ended and is free. The
// error is ctx's: all else is logged.
func (m *Manager) promote(ctx context.Context, w *workspace) error {
	rec := m.record(w)
	if !publishes(m, rec) || w.clone == nil {
		return nil
	}
	err := m.Warm.Promote(ctx, warm.Ended{
		Clone: rec.Clone, Upper: m.upper(rec), UID: rec.UID, GID: rec.GID, Ref: rec.Ref, Text: rec.Options["warm_key"],
		Paths: rec.Warm, Tree: w.clone.Trees.Lower(rec.Chain, rec.GitLayer),
	})
	if err != nil && ctx.Err() == nil {
		m.Log.WithError(err).WithField("workspace", rec.ID).Warn("publish warm layers")
		return nil
	}
	return err
}
