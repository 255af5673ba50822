package main

import (
	"net/http"
	"time"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/admin"
)

// admin returns the handler of the admin socket.
func (p *parts) admin(m machine) http.Handler {
	set := m.set
	return admin.Handler(admin.Config{
		Credentials: p.credentials, Clones: p.clones, Volumes: p.volumes, Workspaces: p.workspaces, Janitor: p.janitor, Refresher: p.keeper,
		Health: newCheckup(m, p).run,
		Limits: func(string) api.Limits {
			return api.Limits{MaxSize: set.limits.SubjectMaxSize, MaxLeases: set.limits.subjectMaxLeases}
		},
		Settings: set.shown, Version: version, Started: time.Now(), Metrics: p.metrics, Log: p.log,
	})
}
