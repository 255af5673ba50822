package main

import (
	"cmp"
	"context"
	"time"

	"github.com/helmdeck/repos/internal/clone"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/outbound/changes"
	"github.com/helmdeck/repos/internal/outbound/look"
	"github.com/helmdeck/repos/internal/outbound/quarantine"
	"github.com/helmdeck/repos/internal/volume"
)

// newInspector returns what looks at workspaces. It makes its copies in the quarantine, which the
// next start empties.
func (p *parts) newInspector(m machine, q *quarantine.Quarantine) *look.Inspector {
	return look.NewInspector(look.NewViewer(p.workspaces), &changes.Reader{Git: m.git, Dir: q.Dir}, q, func(ctx context.Context, rec meta.Workspace) look.Remote {
		remote, err := p.remoteOf(ctx, rec, m, q)
		if err != nil {
			p.log.WithContext(ctx).WithError(err).WithField("workspace", rec.ID).Debug("what the remote of a workspace has is not known: what it began with counts")
			return look.Remote{At: rec.MountedAt}
		}
		return remote
	})
}

// askTime is how long an inspection waits for the remote, and linkTime how long for a fetch that is under way.
const askTime, linkTime = 5 * time.Second, time.Second

// remoteOf asks the remote of a workspace, as its subject.
func (p *parts) remoteOf(ctx context.Context, rec meta.Workspace, m machine, q *quarantine.Quarantine) (r look.Remote, err error) {
	opts, err := volume.Parse(rec.Options, nil, m.set.schemes) // the settings may allow less than when the volume was created
	if err != nil {
		return r, err
	}
	c := p.clones.Lookup(rec.Clone)
	if c == nil {
		return r, clone.ErrEvicted
	}
	asking, cancel := context.WithTimeout(ctx, cmp.Or(m.at.askWait, askTime))
	latest, err := c.Latest(asking, clone.SpecOf(opts))
	cancel()
	if err != nil {
		return r, err
	}
	linking, cancel := context.WithTimeout(ctx, linkTime)
	defer cancel()
	r = look.Remote{At: latest.At, Asked: latest.Asked}
	r.Upstream, err = q.Upstream(latest.Store, latest.Commit, func(f func() error) error { return latest.Link(linking, f) })
	return r, err
}
