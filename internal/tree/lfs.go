package tree

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/helmdeck/repos/internal/checkout"
	"github.com/helmdeck/repos/internal/durable"
	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/guard"
	"github.com/helmdeck/repos/internal/lfs"
	"github.com/helmdeck/repos/internal/remote"
	"github.com/helmdeck/repos/internal/volume"
	"github.com/helmdeck/repos/internal/work"
)

// LFSObjects stands among the names of stores for LFS objects, where Measure is told
// what has changed.
const LFSObjects = "lfs objects"

// LFSDir is where LFS objects are below a repository's directory, for the trees of all
// commits and shapes.
func LFSDir(dir string) string { return filepath.Join(dir, "lfs") }

// lfsStore is a repository's LFS objects.
type lfsStore struct {
	remote   *remote.Remote
	fetching work.Lock // so that each object is fetched once
}

// fill turns the git-lfs pointers of a checkout into the files that they stand for.
// What is not there is fetched; an object that can't be had is an error.
func (c *lfsStore) fill(ctx context.Context, s Spec, rule guard.Rule, co checkout.Spec, found checkout.Found) error {
	if len(found.Pointers) == 0 {
		return nil
	}
	if err := c.fetch(ctx, s, rule, string(found.LFSURL), found.Pointers); err != nil {
		return err
	}
	return checkout.Fill(ctx, c.remote.Git, co, LFSDir(c.remote.Dir), found.Pointers)
}

// fetch has the objects of pointers in the storage.
func (c *lfsStore) fetch(ctx context.Context, s Spec, rule guard.Rule, given string, pointers []lfs.Pointer) error {
	unlock, err := c.fetching.Acquire(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	var missing []lfs.Pointer
	for _, p := range pointers {
		if ok, err := lfs.Has(LFSDir(c.remote.Dir), p); err != nil {
			return err
		} else if !ok {
			missing = append(missing, p)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	endpoint, auth, err := c.server(s, given)
	if err != nil {
		return err
	}
	if err := durable.MkdirAll(LFSDir(c.remote.Dir), 0o755); err != nil {
		return err
	}
	progress, end := c.remote.Doing.Begin(ctx, "fetching LFS objects of", s.URL.String())
	defer end()
	began := c.remote.Now()
	defer c.remote.Measure(LFSObjects)
	err = lfs.Fetch{
		Endpoint: endpoint, Auth: auth, Covers: func(url string) bool { return c.sameAuth(s, auth, url) },
		Rule: rule, Storage: LFSDir(c.remote.Dir), Objects: missing, Progress: progress,
	}.Run(ctx, c.remote.Git)
	if err == nil {
		c.remote.Log.WithFields(map[string]any{
			"server": endpoint, "objects": len(missing), "took": c.remote.Now().Sub(began).String(),
		}).Info("fetching LFS objects: done")
	}
	return err
}

// server returns the LFS server of a repository, and what to show there: the
// one beside the repository with its credential, or the given one, that .lfsconfig
// names. That
// is input of the repository: it gets the credential of its own URL, and none
// that is for another host than the repository's.
func (c *lfsStore) server(s Spec, given string) (endpoint string, auth *git.Auth, err error) {
	web := s.overHTTP()
	if given == "" {
		url := s.URL.OverHTTP()
		auth, err = c.remote.Auth(web.Source, url)
		return lfsEndpoint(url), auth, err
	}
	u, err := volume.ParseURL(given, volume.Schemes{})
	if err != nil {
		return "", nil, fmt.Errorf("the LFS server that .lfsconfig names %w", urlProblem(err))
	}
	if u.Host() == s.URL.Host() {
		auth, err = c.remote.Auth(web.Source, u.String())
	}
	return u.String(), auth, err
}

// overHTTP returns s without a credential that is for the other scheme.
func (s Spec) overHTTP() Spec {
	if s.URL.Scheme() != "https" && s.URL.Scheme() != "http" {
		s.Credential = ""
	}
	return s
}

// sameAuth reports whether a URL is to be shown what its server's endpoint is: a scope
// may name a part of a host.
func (c *lfsStore) sameAuth(s Spec, auth *git.Auth, url string) bool {
	a, err := c.remote.Auth(s.overHTTP().Source, url)
	return err == nil && a != nil && auth != nil && a.Name == auth.Name
}

// lfsEndpoint is where git-lfs expects the server of a repository.
func lfsEndpoint(url string) string {
	if filepath.Ext(url) != ".git" {
		url += ".git"
	}
	return url + "/info/lfs"
}
