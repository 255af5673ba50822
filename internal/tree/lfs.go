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
	"github.com/helmdeck/repos/internal/volume"
)

// LFSObjects is what remote.Config.Measure gets for LFS objects, instead of the name of a
// store.
const LFSObjects = "lfs objects"

// LFSDir returns the storage of LFS objects below a repository's directory. All trees
// share it.
func LFSDir(dir string) string { return filepath.Join(dir, "lfs") }

// fillLFS replaces the git-lfs pointers of a checkout by the contents of their objects. It
// fetches missing objects; if it can't get one, that is an error.
func (c *Collection) fillLFS(ctx context.Context, s Spec, rule guard.Rule, co checkout.Spec, found checkout.Found) error {
	if len(found.Pointers) == 0 {
		return nil
	}
	if scheme := s.URL.Scheme(); scheme != "https" && scheme != "http" {
		s.Credential = "" // it is for that scheme, but LFS uses https
	}
	if err := c.fetchLFS(ctx, s, rule, string(found.LFSURL), found.Pointers); err != nil {
		return err
	}
	return checkout.Fill(ctx, c.remote.Git, co, LFSDir(c.remote.Dir), found.Pointers)
}

// fetchLFS fetches those objects of pointers that the storage lacks. given is the LFS
// server that .lfsconfig names, or empty.
func (c *Collection) fetchLFS(ctx context.Context, s Spec, rule guard.Rule, given string, pointers []lfs.Pointer) error {
	unlock, err := c.fetchingLFS.Acquire(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	storage := LFSDir(c.remote.Dir)
	var missing []lfs.Pointer
	for _, p := range pointers {
		if ok, err := lfs.Has(storage, p); err != nil {
			return err
		} else if !ok {
			missing = append(missing, p)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	endpoint, scope, err := lfsServer(s, given)
	if err != nil {
		return err
	}
	auth := func(ctx context.Context) (*git.Auth, error) {
		if scope == "" {
			return nil, nil
		}
		return c.remote.Auth(ctx, s.Source, scope)
	}
	if err := durable.MkdirAll(storage, 0o755); err != nil {
		return err
	}
	progress, end := c.remote.Doing.Begin(ctx, "fetching LFS objects of", s.URL.String())
	defer end()
	began := c.remote.Now()
	defer c.remote.Measure(LFSObjects)
	err = lfs.Fetch{
		Endpoint: endpoint, Auth: auth, Rule: rule, Storage: storage, Objects: missing, Progress: progress,
	}.Run(ctx, c.remote.Git)
	if err == nil {
		c.remote.Log.WithContext(ctx).WithFields(map[string]any{
			"server": endpoint, "objects": len(missing), "took": c.remote.Now().Sub(began).String(),
		}).Info("fetching LFS objects: done")
	}
	return err
}

// lfsServer returns the URL of a repository's LFS server, and the URL that its credential is
// for: the given server or, if that is empty, the one beside the repository. The given one
// comes from the repository, so it gets a credential only if its host is the repository's:
// the one for its own URL.
func lfsServer(s Spec, given string) (endpoint, scope string, err error) {
	if given == "" {
		url := s.URL.OverHTTP()
		return lfsEndpoint(url), url, nil
	}
	u, err := volume.ParseURL(given, volume.Schemes{})
	if err != nil {
		return "", "", fmt.Errorf("the LFS server that .lfsconfig names %w", urlProblem(err))
	}
	if u.Host() == s.URL.Host() {
		scope = u.String()
	}
	return u.String(), scope, nil
}

// lfsEndpoint returns the URL where git-lfs expects the LFS server of a repository.
func lfsEndpoint(url string) string {
	if filepath.Ext(url) != ".git" {
		url += ".git"
	}
	return url + "/info/lfs"
}
