package main

import (
	"net/http"
	"time"

	"github.com/helmdeck/repos/internal/admin"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/verbs/removal"
)

// admin returns the handler of the admin socket.
func (p *parts) admin(m machine) http.Handler {
	set := m.set
	var publications func() []meta.Publication
	if p.csi != nil {
		publications = p.csi.Publications
	}
	return admin.Handler(admin.Config{
		Publications: publications,
		Credentials:  p.credentials, Clones: p.clones, Caches: p.workspaces.Warm(), Volumes: p.volumes, Workspaces: p.workspaces, Drafts: p.workspaces, Janitor: p.janitor, Refresher: p.keeper, Warmer: p.keeper,
		Health: newCheckup(m, p).run,
		Limits: p.quota, Releaser: p.volumes, Pusher: p.pusher, Inspector: p.inspector,
		Remover:  removal.New(removal.Config{Clones: p.clones, Workspaces: p.workspaces, Forget: p.workspaces.Warm().Evicting, Janitor: p.janitor, Log: p.log}),
		Settings: set.shown, Version: version, Started: time.Now(), Metrics: p.metrics, Audit: p.audit.Trail, Journal: m.journal, Log: p.log,
	})
}
