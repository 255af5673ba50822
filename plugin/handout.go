package main

import (
	"context"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/admin/audit"
	"github.com/helmdeck/repos/internal/credential"
	"github.com/helmdeck/repos/internal/credential/handout"
)

// answersFrom returns a function that returns the credential that git in a container gets: that of
// the volume, with as much access as it allows.
func answersFrom(store *credential.Store) func(context.Context, handout.Question) (handout.Answer, error) {
	return func(ctx context.Context, q handout.Question) (handout.Answer, error) {
		r := credential.Request{URL: q.Repo, Subject: q.Subject, Name: q.Credential, Access: credential.Fetch, Refused: q.Refused}
		fetching, err := store.Match(r.URL, r.Subject, r.Name, credential.Fetch)
		if err != nil {
			return handout.Answer{}, err
		}
		// Another credential that may push is not the one that the volume has.
		if pushing, err := store.Match(r.URL, r.Subject, r.Name, credential.Push); err == nil && pushing.Name == fetching.Name {
			r.Access = credential.Push
		}
		m, err := store.Obtain(ctx, r)
		if err != nil {
			return handout.Answer{Name: fetching.Name}, err
		}
		switch m.Kind {
		case credential.HTTPS, credential.Bearer:
			return handout.Answer{Name: m.Name, User: m.User, Secret: m.Secret, Bearer: m.Kind == credential.Bearer, Expires: m.Expires}, nil
		}
		return handout.Answer{}, handout.ErrNone // known hosts at most, because the URL is not that of ssh
	}
}

// handedOut records that a container got a credential: of a workspace once in a minute, because git
// asks for each command.
func (a auditor) handedOut(ctx context.Context, e handout.Event) {
	if e.Result != handout.Answered || !e.Notice {
		return
	}
	w := e.Workspace
	r := api.AuditRecord{
		Action: "credential.handout", Actor: audit.Own, Volume: w.Volume, VolumeID: w.VolumeID, Subject: w.Options["subject"],
		Repo: w.Options["repo"], Ref: w.Ref, Commit: w.Commit, Clone: w.Clone, Workspace: w.ID, Name: e.Name,
	}
	a.Record(ctx, r, nil)
}
