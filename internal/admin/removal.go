package admin

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/verbs/removal"
)

// Remover is the part of *removal.Remover that the API uses.
type Remover interface {
	Evict(ctx context.Context, key string) (removal.Freed, error)
	Fresh(ctx context.Context, key string, force bool) (removal.Freed, error)
	FreshSubject(ctx context.Context, name string, force bool) (removal.Freed, error)
}

// Releaser is the part of *verbs.Volumes that releases leases by force.
type Releaser interface {
	ForceRelease(ctx context.Context, volume, holder string) error
}

// Removals and forced releases are completed even if the client disconnects, because nobody
// would learn how far they came.

func (c Config) evictClone(r *http.Request) (any, error) {
	freed, err := c.Remover.Evict(context.WithoutCancel(r.Context()), cloneKey(r))
	return freedOf(r, false, freed, err)
}

func (c Config) freshClone(r *http.Request) (any, error) {
	want, err := decode[api.Fresh](r)
	if err != nil {
		return nil, err
	}
	freed, err := c.Remover.Fresh(context.WithoutCancel(r.Context()), cloneKey(r), want.Force)
	return freedOf(r, want.Force, freed, err)
}

func (c Config) freshSubject(r *http.Request) (any, error) {
	want, err := decode[api.Fresh](r)
	if err != nil {
		return nil, err
	}
	freed, err := c.Remover.FreshSubject(context.WithoutCancel(r.Context()), r.PathValue("name"), want.Force)
	return freedOf(r, want.Force, freed, err)
}

// freedOf returns the answer to a removal, and notes for the audit log what is gone, also after
// an error.
func freedOf(r *http.Request, force bool, f removal.Freed, err error) (any, error) {
	note(r, func(rec *api.AuditRecord) {
		rec.Bytes = f.Size.Bytes
		if force {
			rec.Reason = "force"
		}
		if len(f.Removed) > 0 {
			rec.Text = fmt.Sprintf("%d workspaces and checkpoints went with it: %s", len(f.Removed), strings.Join(f.Removed, " "))
		}
	})
	if err != nil {
		return nil, err
	}
	return api.Freed{Freed: f.Size.Bytes, Clones: append([]string{}, f.Clones...), Removed: f.Removed}, nil
}

func (c Config) releaseLease(r *http.Request) (any, error) {
	return nil, c.Releaser.ForceRelease(context.WithoutCancel(r.Context()), r.PathValue("volume"), r.PathValue("holder"))
}
