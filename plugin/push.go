package main

import (
	"context"

	"github.com/sirupsen/logrus"

	"github.com/helmdeck/repos/internal/credential"
	"github.com/helmdeck/repos/internal/outbound"
	"github.com/helmdeck/repos/internal/outbound/look"
	"github.com/helmdeck/repos/internal/outbound/quarantine"
	"github.com/helmdeck/repos/internal/place"
	"github.com/helmdeck/repos/internal/repo/tree"
	"github.com/helmdeck/repos/janitor"
)

// newPusher returns what pushes and exports the commits of workspaces. It is made after the
// janitor, whose list of events it adds to.
func (p *parts) newPusher(m machine, q *quarantine.Quarantine) *outbound.Pusher {
	viewer := look.NewViewer(p.workspaces)
	return outbound.New(outbound.Config{
		Quarantine: q, Git: m.git, Work: p.work, Schemes: m.set.schemes, Log: p.log, Credential: authFrom(p.credentials, credential.Push),
		Subject: viewer.Subject,
		Open: func(ctx context.Context, id string) (outbound.Workspace, error) {
			v, err := viewer.Open(ctx, id)
			if err != nil {
				return outbound.Workspace{}, err
			}
			return outbound.Workspace{Record: v.Record, Root: v.Merged, GitLayer: v.GitLayer, Context: v.Context(), Close: v.Close}, nil
		},
		LFS:    func(clone string) string { return tree.LFSDir(place.Clone(m.at.data, clone)) },
		Pushed: p.pushed,
	})
}

// pushed reports a push as an event. The audit log has the request.
func (p *parts) pushed(ctx context.Context, r outbound.Result, err error) {
	if r.Volume == "" {
		return // there is no such workspace, or the request is wrong
	}
	e := janitor.Event{
		Type: janitor.Pushed, Subject: string(r.Subject), Clone: r.Clone, ID: r.Workspace, Volume: r.Volume,
		Text: "branch " + r.RemoteBranch + " of " + r.Repo + " is at " + r.New,
	}
	log := p.log.WithContext(ctx).WithFields(logrus.Fields{
		"volume": r.Volume, "workspace": r.Workspace, "repo": r.Repo, "branch": r.RemoteBranch, "commit": r.New, "commits": r.Commits, "bytes": r.Bytes,
	})
	if err != nil {
		e.Type, e.Text = janitor.NotPushed, err.Error()
		log.WithError(err).Info("push: refused")
	} else {
		log.Info("push: done")
	}
	p.janitor.Note(e)
}
