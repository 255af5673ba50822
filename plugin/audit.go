package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/spf13/viper"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/admin/audit"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/origin"
	"github.com/helmdeck/repos/internal/verbs"
	"github.com/helmdeck/repos/janitor"
)

// auditor records what the parts of the plugin observe. Its Trail is nil if the setting
// AUDIT_SIZE is 0.
type auditor struct{ *audit.Trail }

// openAudit opens the audit log. If it was just switched off, its last record says so.
func openAudit(m machine, log *logrus.Logger) auditor {
	c := audit.Config{
		Dir: filepath.Join(m.at.data, "audit"), Size: m.set.auditSize, Log: log, Now: m.at.clock(), Settings: m.set.values, Defaults: allDefaults(),
	}
	if c.Size > 0 {
		return auditor{audit.Open(c)}
	}
	if _, err := os.Lstat(c.Dir); err == nil && audit.LastSetting(c.Dir, "AUDIT_SIZE") != "0" {
		c.Size = audit.MinSize
		audit.Open(c).Close()
	}
	return auditor{}
}

// allDefaults returns the defaults of all settings.
func allDefaults() map[string]string {
	all := maps.Clone(defaults)
	maps.Copy(all, limitDefaults)
	return all
}

// recorded returns the settings for the audit log: of a long value its hash.
func recorded(v *viper.Viper) map[string]string {
	values := make(map[string]string)
	for name := range allDefaults() {
		values[name] = v.GetString(name)
		if len(values[name]) > maxRecorded {
			values[name] = fmt.Sprintf("%d bytes, sha256 %x", len(values[name]), sha256.Sum256([]byte(values[name])))
		}
	}
	return values
}

// maxRecorded is the length of the longest value of a setting that is recorded as it is.
const maxRecorded = 200

// verb is verbs.Config.Observe.
func (a auditor) verb(ctx context.Context, e verbs.Event) {
	if e.Again && e.Err == nil {
		return
	}
	r := api.AuditRecord{
		Action: "volume." + string(e.Verb), Volume: e.Volume, Clone: e.Clone, Lease: e.Lease, Commit: e.Workspace.Commit, Workspace: e.Workspace.ID,
	}
	if e.Clone != "" {
		r.Subject, r.Repo, r.Ref = string(e.Options.Subject), e.Options.Repo.String(), e.Options.Ref.String()
	}
	switch e.Verb {
	case verbs.Mounting, verbs.Unmounting:
		r.Action, r.Took, r.Waits = string(e.Verb), e.Took, e.Waits
		for p, took := range e.Phases {
			if r.Phases == nil {
				r.Phases = make(map[string]time.Duration)
			}
			r.Phases[p.String()] = took
		}
	case verbs.Forcing:
		r.Action = "unmount.forced"
	case verbs.Creating:
		r.Checkpoint = e.Options.From
	}
	a.Record(ctx, r, e.Err)
}

// evicted is janitor.Config.Evicted. An eviction for a mount that needs room is the plugin's
// own decision, and has the request of that mount.
func (a auditor) evicted(ctx context.Context, e janitor.Eviction) {
	r := api.AuditRecord{
		Action: "evict", Subject: e.Subject, Clone: e.Clone, Volume: e.Volume, Kind: e.Kind.String(), ID: e.ID, Reason: string(e.Reason),
		Bytes: e.Size.Bytes, Text: e.Text,
	}
	if origin.Of(ctx).Actor.Kind != origin.User {
		r.Actor = audit.Own
	}
	a.Record(ctx, r, nil)
}

// leasesLost is workspace.Config.LeasesLost.
func (a auditor) leasesLost(ctx context.Context, before meta.Workspace, lost meta.Leases, why string) {
	for _, id := range lost {
		a.Record(ctx, api.AuditRecord{
			Action: "lease.lost", Actor: audit.Own, Volume: before.Volume, VolumeID: before.VolumeID, Subject: before.Options["subject"],
			Repo: before.Options["repo"], Ref: before.Ref, Commit: before.Commit, Clone: before.Clone, Lease: id, Workspace: before.ID,
			Text: why,
		}, nil)
	}
}
