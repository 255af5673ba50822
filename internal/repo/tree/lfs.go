package tree

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	"github.com/helmdeck/repos/internal/disk/durable"
	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/git/guard"
	"github.com/helmdeck/repos/internal/repo/checkout"
	"github.com/helmdeck/repos/internal/repo/lfs"
	"github.com/helmdeck/repos/internal/repo/lfs/download"
)

// LFSObjects is what remote.Config.Measure gets for LFS objects, instead of the name of a
// store.
const LFSObjects = "lfs objects"

// LFSDir returns the storage of LFS objects below a repository's directory. All trees
// share it.
func LFSDir(dir string) string { return filepath.Join(dir, "lfs") }

// fillLFS replaces the git-lfs pointers of a checkout by the contents of their objects, and
// puts the objects, and git-lfs's hooks, into its repository. It fetches missing objects; if it can't get one,
// that is an error.
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
	storage := LFSDir(c.dir)
	if err := checkout.Fill(ctx, c.git, co, storage, found.Pointers); err != nil {
		return err
	}
	return errors.Join(linkLFS(ctx, co, storage, found.Pointers), writeLFSHooks(co))
}

// repositoryOf returns the directory of a checkout's repository.
func repositoryOf(co checkout.Spec) string { return cmp.Or(co.GitDir, filepath.Join(co.Dir, ".git")) }

// writeLFSHooks makes git-lfs's hooks in the repository of a checkout, as git-lfs does when it checks files out. They are in
// no way of those of an image: git has either core.hooksPath, or these.
func writeLFSHooks(co checkout.Spec) error {
	w, gitDir := ownedWriter{uid: int(co.UID), gid: int(co.GID)}, repositoryOf(co)
	w.mkdirs(gitDir, "hooks")
	for _, name := range lfs.Hooks {
		path := filepath.Join(gitDir, "hooks", name)
		if w.file(path, lfs.Hook()); w.err == nil {
			w.err = os.Chmod(path, 0o755)
		}
	}
	return w.err
}

// linkLFS links the objects of pointers to where git-lfs looks for them in the repository of
// a checkout, so that git can restore files without the server. A container can't change
// the objects: its writes go to the upper directory of its own overlay.
func linkLFS(ctx context.Context, co checkout.Spec, storage string, pointers []lfs.Pointer) error {
	w, gitDir := ownedWriter{uid: int(co.UID), gid: int(co.GID)}, repositoryOf(co)
	for _, p := range pointers {
		if p.Size == 0 { // such a pointer needs no object
			continue
		}
		name := lfs.InRepository(p.OID)
		w.mkdirs(gitDir, filepath.Dir(name))
		// Files may have the same content.
		if err := os.Link(lfs.Object(storage, p.OID), filepath.Join(gitDir, name)); err != nil && !errors.Is(err, os.ErrExist) {
			return cmp.Or(w.err, err)
		}
		if err := cmp.Or(w.err, ctx.Err()); err != nil {
			return err
		}
	}
	return nil
}

// fetchLFS fetches those objects of pointers that the storage lacks. given is the LFS
// server that .lfsconfig names, or empty.
func (c *Collection) fetchLFS(ctx context.Context, s Spec, rule guard.Rule, given string, pointers []lfs.Pointer) error {
	unlock, err := c.fetchingLFS.Acquire(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	storage := LFSDir(c.dir)
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
	endpoint, scope, beside, err := lfsServer(s, given)
	if err != nil {
		return err
	}
	if beside {
		rule = besideRule(rule, endpoint)
	}
	auth := func(ctx context.Context) (*git.Auth, error) {
		if scope == "" {
			return nil, nil
		}
		return c.repo.Auth(ctx, s.Source, scope)
	}
	if err := durable.MkdirAll(storage, 0o755); err != nil {
		return err
	}
	progress, end := c.doing.Begin(ctx, "fetching LFS objects of", s.URL.String())
	defer end()
	began := c.now()
	defer c.measure(LFSObjects)
	err = download.Job{
		Endpoint: endpoint, Auth: auth, Rule: rule, Storage: storage, Objects: missing, Progress: progress,
	}.Run(ctx, c.git)
	if err == nil {
		c.log.WithContext(ctx).WithFields(map[string]any{
			"server": endpoint, "objects": len(missing), "took": c.now().Sub(began).String(),
		}).Info("fetching LFS objects: done")
	}
	return err
}

// lfsServer returns the URL of a repository's LFS server, and the URL that its credential is
// for: the given server or, if that is empty, the one beside the repository. The given one
// comes from the repository, so it gets a credential only if its host is the repository's:
// the one for its own URL, or for that of the repository which it is beside. beside says that
// it is beside a repository of that host.
func lfsServer(s Spec, given string) (endpoint, scope string, beside bool, err error) {
	if given == "" {
		at := s.URL.OverHTTP()
		return lfsEndpoint(at), at, true, nil
	}
	at, beside, err := s.URL.ParseLFS(given) // without a user, or net/http sends it unasked
	if err != nil {
		return "", "", false, fmt.Errorf("the LFS server that .lfsconfig names %w", fact(err))
	}
	if beside {
		return lfsEndpoint(at.String()), at.String(), true, nil
	}
	if at.Host() == s.URL.Host() {
		scope = at.String()
	}
	return at.String(), scope, false, nil
}

// besideRule returns the rule for an LFS server beside a repository. On the volume's own host the
// user has named it, although the repository may be fetched over ssh, from another port.
func besideRule(rule guard.Rule, endpoint string) guard.Rule {
	if u, err := url.Parse(endpoint); err == nil {
		if at := guard.HostPortOf(u); at.Host == rule.Own.Host {
			rule.Own = at
		}
	}
	return rule
}

// lfsEndpoint returns the URL where git-lfs expects the LFS server of a repository.
func lfsEndpoint(url string) string {
	if filepath.Ext(url) != ".git" {
		url += ".git"
	}
	return url + "/info/lfs"
}
