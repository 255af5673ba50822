package admin

import (
	"cmp"
	"fmt"
	"net/http"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/admin/quota"
	"github.com/helmdeck/repos/internal/meta"
)

// Limits is the part of *quota.Quota that the API uses.
type Limits interface {
	Settings() quota.Limits
	Own(name string) meta.Subject
	List() []meta.Subject
	Set(rec meta.Subject) error
}

// limitsOf returns the limits in force for a subject.
func (c Config) limitsOf(subject string) api.Limits {
	settings, own := c.Limits.Settings(), c.Limits.Own(subject)
	return api.Limits{
		MaxSize: *cmp.Or(own.MaxSize, &settings.MaxSize), MaxLeases: *cmp.Or(own.MaxLeases, &settings.MaxLeases),
		Own: api.OwnLimits{MaxSize: own.MaxSize, MaxLeases: own.MaxLeases},
	}
}

func (c Config) setLimits(r *http.Request) (any, error) {
	own, err := decode[api.OwnLimits](r)
	if err != nil {
		return nil, err
	}
	rec := meta.Subject{Name: r.PathValue("name"), MaxSize: own.MaxSize, MaxLeases: own.MaxLeases}
	before := fieldsOf(c.ownLimits(rec.Name))
	note(r, func(r *api.AuditRecord) { r.Changes = changesOf(before, fieldsOf(own)) })
	if err := c.Limits.Set(rec); err != nil {
		return nil, err
	}
	c.Log.WithContext(r.Context()).WithField("subject", rec.Name).WithFields(fieldsOf(own)).Info("limits of a subject set")
	c.Janitor.Nudge()
	return nil, nil
}

func (c Config) ownLimits(subject string) api.OwnLimits {
	rec := c.Limits.Own(subject)
	return api.OwnLimits{MaxSize: rec.MaxSize, MaxLeases: rec.MaxLeases}
}

// changesOf returns the limits that differ. One that the subject does not have is empty: that
// of the settings applies.
func changesOf(before, now map[string]any) map[string]api.Change {
	text := func(v any) string {
		if v == nil {
			return ""
		}
		return fmt.Sprint(v)
	}
	changes := make(map[string]api.Change)
	for _, name := range []string{"max_size", "max_leases"} {
		if before[name] != now[name] {
			changes[name] = api.Change{From: text(before[name]), To: text(now[name])}
		}
	}
	return changes
}

// fieldsOf returns the limits that a subject has of its own, for the log.
func fieldsOf(own api.OwnLimits) map[string]any {
	fields := make(map[string]any)
	if own.MaxSize != nil {
		fields["max_size"] = *own.MaxSize
	}
	if own.MaxLeases != nil {
		fields["max_leases"] = *own.MaxLeases
	}
	return fields
}
