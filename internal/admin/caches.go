package admin

import (
	"context"
	"fmt"
	"io/fs"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/volume"
	"github.com/helmdeck/repos/internal/workspace/cache"
	"github.com/helmdeck/repos/internal/workspace/warm"
	"github.com/helmdeck/repos/janitor"
)

// Caches is the part of *warm.Manager that the API uses.
type Caches interface {
	Caches(clone string) []warm.CacheInfo
	HasCache(clone string, uid *uint32, rel string) (bool, error)
	Found(clone string, p meta.WarmPath) warm.Found
	DropCache(ctx context.Context, clone string, uid *uint32, rel string) (disk.Size, error)
}

// dropTime is how long it may take to drop caches: the rest of one is linked anew for a path of it, and a
// workspace may be publishing. It is a variable for tests.
var dropTime = 15 * time.Minute

func (c Config) listCaches(r *http.Request) (any, error) {
	e, err := extentOf(r, "subject", "repo", "clone")
	if err != nil {
		return nil, err
	}
	caches, err := c.caches(r.Context(), e)
	if err != nil {
		return nil, err
	}
	return page(r, "caches", caches, cacheKey, columns[api.Cache]{
		"subject": func(c api.Cache) string { return c.Subject },
		"repo":    func(c api.Cache) string { return hashOf(c.Clone) },
		"clone":   func(c api.Cache) string { return c.Clone },
	})
}

// caches returns the caches that a page may have, and at least one more if there is one. It describes as many
// clones at a time as the page has records, because most clones have one cache.
func (c Config) caches(ctx context.Context, e extent) ([]api.Cache, error) {
	subject, repo, key := e.want["subject"], e.want["repo"], e.want["clone"]
	dir, all := volume.Subject(subject).Dir(), []api.Cache{}
	for last := ""; ; {
		clones, _, err := c.holdings(ctx, janitor.Choice{Limit: e.limit + 1, Match: func(k string) bool {
			return k > last && e.covers(k+maxCacheKey) &&
				(key == "" || k == key) && (subject == "" || subjectOf(k) == dir) && (repo == "" || hashOf(k) == repo)
		}})
		if err != nil {
			return nil, err
		}
		for _, of := range clones {
			last = of.Clone
			for _, info := range c.Caches.Caches(of.Clone) {
				if cache := cacheOf(of, info); e.covers(cacheKey(cache)) {
					all = append(all, cache)
				}
			}
			if len(all) > e.limit {
				return all, nil
			}
		}
		if len(clones) <= e.limit {
			return all, nil
		}
	}
}

// maxCacheKey is what the key of a clone's last cache ends with.
const maxCacheKey = "/4294967295/4294967295"

// cacheKey returns the key of a cache. Keys are sorted as the numbers in them.
func cacheKey(c api.Cache) string { return fmt.Sprintf("%s/%010d/%010d", c.Clone, c.UID, c.GID) }

func cacheOf(of api.Clone, info warm.CacheInfo) api.Cache {
	return api.Cache{
		Clone: of.Clone, Subject: of.Subject, Repo: of.Repo, UID: info.UID, GID: info.GID,
		Size: sizeOf(info.Size), Layers: info.Layers, Used: info.Used.UTC(), PublishedAt: info.PublishedAt.UTC(),
	}
}

func (c Config) dropCache(r *http.Request) (any, error) {
	query, err := queryOf(r, []string{"uid", "path"})
	if err != nil {
		return nil, err
	}
	uid, err := uidOf(query["uid"])
	if err != nil {
		return nil, err
	}
	rel := query["path"]
	if err := checkCachePath(rel); err != nil {
		return nil, err
	}
	note(r, func(rec *api.AuditRecord) { rec.Text = partsText(uid, rel) })
	key, clone, err := c.oneClone(r)
	if err != nil {
		return nil, err
	}
	note(r, func(rec *api.AuditRecord) { rec.Subject, rec.Repo = clone.Subject, clone.Repo })
	if err := c.findCache(key, uid, rel); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(r.Context(), dropTime, fmt.Errorf("it takes longer than %v", dropTime))
	defer cancel()
	gone, err := c.Caches.DropCache(ctx, key, uid, rel)
	note(r, func(rec *api.AuditRecord) { rec.Bytes = gone.Bytes })
	switch {
	case err != nil && ctx.Err() != nil: // also if the client hung up, or the plugin stops
		return nil, requestError{http.StatusServiceUnavailable, fmt.Errorf("the cache could not be dropped: %w", context.Cause(ctx))}
	case err != nil:
		return nil, err
	}
	log := c.Log.WithContext(r.Context()).WithField("clone", key).WithField("bytes", gone.Bytes)
	log.Info("cache dropped: " + partsText(uid, rel))
	return api.DroppedCache{Freed: sizeOf(gone)}, nil
}

// findCache returns an error if there is nothing to drop.
func (c Config) findCache(key string, uid *uint32, rel string) error {
	of := "cache"
	if uid != nil {
		of = fmt.Sprintf("cache of the uid %d", *uid)
	}
	if found, err := c.Caches.HasCache(key, uid, ""); err != nil {
		return err
	} else if !found {
		return notFound("clone %q has no %s", key, of)
	}
	if found, err := c.Caches.HasCache(key, uid, rel); err != nil {
		return err
	} else if !found {
		return notFound("nothing is published at %q in the %s of clone %q", rel, of, key)
	}
	return nil
}

// uidOf reads a uid; nil for none.
func uidOf(text string) (*uint32, error) {
	if text == "" {
		return nil, nil
	}
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return nil, badRequest(fmt.Errorf("uid is %.40q: allowed is a number from 0 to 4294967295", text))
	}
	return new(uint32(n)), nil
}

// maxCachePath bounds a path below the cache, as the kernel does.
const maxCachePath = 4096

// checkCachePath refuses what is not a path below a cache. The empty path is that of the whole cache.
func checkCachePath(rel string) error {
	refused := func(why string) error {
		return badRequest(fmt.Errorf("path is %.200q: %s; allowed is a path below the cache, such as npm/_cacache", rel, why))
	}
	first, _, _ := strings.Cut(rel, "/")
	switch {
	case rel == "":
		return nil
	case len(rel) > maxCachePath:
		return refused(fmt.Sprintf("it is longer than %d bytes", maxCachePath))
	case strings.Contains(rel, "\x00"):
		return refused("it has a zero byte")
	case !fs.ValidPath(rel) || rel == ".":
		return refused("it is not relative and clean")
	case first == ".git" || first == ".hdcache":
		return refused("it begins at the checkout")
	}
	if unit := cache.Unit(rel); unit != "" {
		return refused(fmt.Sprintf("tools trust %.200q as a whole, so drop that", unit))
	}
	return nil
}

// partsText says which parts of a clone's caches are dropped.
func partsText(uid *uint32, rel string) string {
	text := "all"
	if rel != "" {
		text = fmt.Sprintf("path %q", rel)
	}
	if uid != nil {
		text += fmt.Sprintf(" of the uid %d", *uid)
	}
	return text
}

func (c Config) publishCache(r *http.Request) (any, error) {
	id := r.PathValue("id")
	note(r, func(rec *api.AuditRecord) {
		rec.Checkpoint, rec.Workspace = "", id
		if w, ok := c.Workspaces.Workspace(id); ok {
			rec.Volume, rec.Clone, rec.Repo, rec.Subject = w.Volume, w.Clone, w.Options["repo"], subjectName(w)
		}
	})
	published, err := c.Workspaces.PublishCache(r.Context(), id)
	return api.PublishedCache{Files: int64(published.Files), Bytes: published.Size.Bytes, Left: published.Left}, gone(r, err)
}
