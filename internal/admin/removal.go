package admin

import (
	"context"
	"net/http"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/removal"
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
	return freedOf(c.Remover.Evict(context.WithoutCancel(r.Context()), cloneKey(r)))
}

func (c Config) freshClone(r *http.Request) (any, error) {
	want, err := decode[api.Fresh](r)
	if err != nil {
		return nil, err
	}
	return freedOf(c.Remover.Fresh(context.WithoutCancel(r.Context()), cloneKey(r), want.Force))
}

func (c Config) freshSubject(r *http.Request) (any, error) {
	want, err := decode[api.Fresh](r)
	if err != nil {
		return nil, err
	}
	return freedOf(c.Remover.FreshSubject(context.WithoutCancel(r.Context()), r.PathValue("name"), want.Force))
}

func freedOf(f removal.Freed, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return api.Freed{Freed: f.Size.Bytes, Clones: append([]string{}, f.Clones...), Discarded: f.Discarded}, nil
}

func (c Config) releaseLease(r *http.Request) (any, error) {
	return nil, c.Releaser.ForceRelease(context.WithoutCancel(r.Context()), r.PathValue("volume"), r.PathValue("holder"))
}
