package admin

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	"github.com/sirupsen/logrus"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/clone"
	"github.com/helmdeck/repos/janitor"
)

func (c Config) prune(r *http.Request) (any, error) {
	want, err := decode[api.Prune](r)
	if err != nil {
		return nil, err
	}
	if want.Unused < 0 {
		return nil, badRequest(fmt.Errorf("unused_ns is %d: allowed is 0 and more", want.Unused))
	}
	hash, err := repoHash(want.Repo)
	if err != nil {
		return nil, err
	}
	noteRepo(r, want.Repo, "", want.Subject)
	sel := janitor.Selection{Checkpoints: want.Checkpoints, Unused: want.Unused, Selects: func(of janitor.Clone) bool {
		return (want.Subject == "" || of.Subject == want.Subject) && (hash == "" || hashOf(of.Key) == hash)
	}}
	if !want.All {
		named := make(map[string]bool)
		for _, v := range c.Volumes.List() {
			named[clone.Key(v.Options.Subject, v.Options.Repo)] = true
		}
		sel.Keeps = func(key string) bool { return named[key] }
	}
	// Complete it even if the client disconnects, because one that is interrupted is not reported.
	report, err := c.Janitor.Prune(context.WithoutCancel(r.Context()), sel, want.DryRun)
	if err != nil {
		return nil, err
	}
	note(r, func(rec *api.AuditRecord) {
		rec.Bytes, rec.Text = report.Frees.Bytes, "dry_run="+strconv.FormatBool(want.DryRun)
	})
	if !want.DryRun {
		c.Log.WithContext(r.Context()).WithFields(logrus.Fields{"evicted": len(report.Evicted), "bytes": report.Frees.Bytes}).Info("pruned")
	}
	return api.Pruned{Evicted: evictionsOf(report.Evicted), Frees: sizeOf(report.Frees), Held: report.Held, Failed: report.Failed}, nil
}
