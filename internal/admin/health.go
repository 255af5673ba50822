package admin

import (
	"cmp"
	"context"
	"net/http"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/admin/health"
)

// Health checks the plugin, its machine and, if remotes is set, the hosts of repositories.
type Health func(ctx context.Context, remotes bool) health.Report

func (c Config) health(r *http.Request) (any, error) {
	query, err := queryOf(r, []string{"remotes"})
	if err != nil {
		return nil, err
	}
	remotes, err := parseFlag("remotes", cmp.Or(query["remotes"], "false"))
	if err != nil {
		return nil, err
	}
	report := c.Health(r.Context(), remotes)
	answer := api.Health{Time: report.Time.UTC(), Status: string(report.Worst()), Checks: make([]api.Check, len(report.Checks))}
	for i, check := range report.Checks {
		answer.Checks[i] = api.Check{
			Name: check.Name, Target: check.Target, Status: string(check.Status), Text: check.Text, Remedy: check.Remedy,
		}
	}
	return answer, nil
}
