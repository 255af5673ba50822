package driver

import (
	"context"

	"github.com/helmdeck/repos/internal/meta"
)

// distance is how many commits lie between what a volume keeps and its ref.
type distance struct {
	from, to string // commits
	commits  int
	counting bool // not known yet
}

// lookBehind asks the remote, in the background, where the ref of a volume stands
// that keeps its workspace: a Mount of it does not.
func (d *Driver) lookBehind(h *handle) {
	d.Clones.Background(func(ctx context.Context) {
		r, err := h.clone.Refresh(ctx, h.spec())
		if err != nil {
			d.Log.WithError(err).WithField("volume", h.rec.Name).Debug("ask how far behind a kept workspace is")
			return
		}
		if kept, ok := d.Workspaces.Kept(h.rec.Name); ok {
			d.behind(h, kept, r)
		}
	})
}

// behind returns how many commits the ref of a volume has that what it keeps was
// not made from. When that is not known it is counted in the background.
func (d *Driver) behind(h *handle, kept meta.Workspace, r meta.Resolution) (commits int, known bool) {
	if r.Commit == "" || r.Commit == kept.Commit {
		return 0, r.Commit != ""
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if h.distance.from == kept.Commit && h.distance.to == r.Commit {
		return h.distance.commits, !h.distance.counting
	}
	want := distance{from: kept.Commit, to: r.Commit, counting: true}
	h.distance = want
	d.Clones.Background(func(ctx context.Context) {
		n, err := h.clone.Remote.Ahead(ctx, h.spec().Source, want.to, want.from)
		if err != nil { // a store that was cloned anew may lack the old commit
			d.Log.WithError(err).WithField("volume", h.rec.Name).Debug("count how far behind a kept workspace is")
			return
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		if h.distance == want {
			h.distance.commits, h.distance.counting = n, false
		}
	})
	return 0, false
}
