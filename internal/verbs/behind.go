package verbs

import (
	"context"

	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/origin"
)

// distance is how many commits a kept workspace is behind its ref.
type distance struct {
	from, to string // commits
	commits  int
	counting bool // commits is not known yet
}

// lookBehind asks the remote, in the background, which commit the ref of a kept workspace
// is at, because an Acquire of it does not ask.
func (v *Volumes) lookBehind(ctx context.Context, h *handle) {
	v.config.Work.Go(origin.Bind(ctx, func(ctx context.Context) {
		r, err := h.clone.Refresh(ctx, h.spec())
		if err != nil {
			v.config.Log.WithContext(ctx).WithError(err).WithField("volume", h.rec.Name).
				Debug("ask how far behind a kept workspace is")
			return
		}
		if kept, ok := v.config.Workspaces.Kept(h.rec.Name); ok {
			v.behind(h, kept, r)
		}
	}))
}

// behind returns how many commits of the volume's ref the kept workspace lacks. If the
// number is unknown, behind counts it in the background.
func (v *Volumes) behind(h *handle, kept meta.Workspace, r meta.Resolution) (commits int, known bool) {
	if r.Commit == "" || r.Commit == kept.Commit {
		return 0, !r.At.IsZero() // an empty repository has no commit
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if h.distance.from == kept.Commit && h.distance.to == r.Commit {
		return h.distance.commits, !h.distance.counting
	}
	want := distance{from: kept.Commit, to: r.Commit, counting: true}
	h.distance = want
	v.config.Work.Go(func(ctx context.Context) {
		ctx = origin.ForVolume(ctx, h.rec.ID)
		n, err := h.clone.Ahead(ctx, h.spec(), want.to, want.from)
		if err != nil { // a store that was cloned again may lack the old commit
			v.config.Log.WithContext(ctx).WithError(err).WithField("volume", h.rec.Name).
				Debug("count how far behind a kept workspace is")
			return
		}
		v.mu.Lock()
		defer v.mu.Unlock()
		if h.distance == want {
			h.distance.commits, h.distance.counting = n, false
		}
	})
	return 0, false
}
