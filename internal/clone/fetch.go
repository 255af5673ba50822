package clone

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/helmdeck/repos/internal/durable"
	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/meta"
)

// fetched is what one fetch leaves behind.
type fetched struct {
	store meta.Store
	refs  []git.PackedRef
}

// storedAs returns the name under which the store keeps a ref of the remote.
// Branches and tags keep theirs; what could collide with nothing of the remote's
// is kept below refs/helmdeck.
func storedAs(ref string) string {
	if ref == "" || ref == "HEAD" {
		return "refs/helmdeck/HEAD"
	}
	if strings.HasPrefix(ref, "refs/") {
		return ref
	}
	return "refs/helmdeck/commits/" + ref
}

// fetch brings all branches and tags, and extra (a full ref, HEAD or a commit)
// if it is not empty, into the store, which it makes when there is none.
func (c *Clone) fetch(ctx context.Context, s Spec, head, extra string) (meta.Store, []git.PackedRef, error) {
	key := strings.Join([]string{"fetch", c.key, s.URL.String(), head, extra}, "\x00")
	f, err := share(ctx, c.m, key, func(ctx context.Context) (fetched, error) {
		return c.fetchNow(ctx, s.URL.String(), head, extra)
	})
	return f.store, f.refs, err
}

func (c *Clone) fetchNow(ctx context.Context, url, head, extra string) (f fetched, err error) {
	unlock, err := c.lock(ctx)
	if err != nil {
		return f, err
	}
	defer unlock()
	c.mu.Lock()
	first := c.rec == nil
	c.mu.Unlock()

	state, dir := "fetching", c.storeDir()
	if first {
		state = "cloning"
		if dir, err = c.newStore(ctx); err != nil {
			return f, err
		}
		defer func() {
			if err != nil {
				err = errors.Join(err, c.discardStore(dir))
			}
		}()
	}
	progress, end := c.begin(state, url)
	defer end()
	began := c.m.Now()
	refspecs := []string{"+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*"}
	if extra != "" {
		refspecs = append(refspecs, "+"+extra+":"+storedAs(extra))
	}
	if err := c.m.Git.Fetch(ctx, git.Fetch{
		Store: dir, URL: url, Refspecs: refspecs, Prune: true, Progress: progress,
	}); err != nil {
		return f, err
	}
	if f.refs, err = git.Refs(dir); err != nil {
		return f, err
	}
	if first {
		if err := durable.SyncTree(dir); err != nil {
			return f, err
		}
		if err := durable.Rename(dir, c.storeDir()); err != nil {
			return f, err
		}
		dir = c.storeDir()
	}
	f.store, err = c.fetchedNow(url, head, began, f.refs)
	if err == nil {
		c.m.Log.WithFields(map[string]any{
			"clone": c.key, "repo": url, "refs": len(f.refs), "took": c.m.Now().Sub(began).String(),
		}).Infof("%s: done", state)
	}
	return f, err
}

// fetchedNow commits what a fetch brought: where the refs that volumes name
// stand now, and that the clone exists.
func (c *Clone) fetchedNow(url, head string, at time.Time, refs []git.PackedRef) (meta.Store, error) {
	sum := sha256.Sum256(append(git.FormatPackedRefs(refs), head...))
	store := meta.Store{
		Snapshot: hex.EncodeToString(sum[:8]), Head: head, FetchedAt: at,
		Refs: make(map[string]meta.Resolution),
	}
	c.mu.Lock()
	before := c.rec
	rec := meta.Clone{Key: c.key, Subject: string(c.subject), Repo: c.repo, CreatedAt: at}
	if before != nil {
		rec = before.Copy()
	}
	for word, r := range rec.Store.Refs {
		if r.Ref == "" {
			store.Refs[word] = r
			continue
		}
		// What the remote no longer has is forgotten; the next question tells.
		if newer, ok := lookUp(refs, r.Ref, at); ok {
			// Nobody has asked about a ref that is fetched by its name alone, nor
			// does a branch that HEAD has left speak for HEAD.
			if !isFetchedAlways(r.Ref) || word == "HEAD" && r.Ref != head {
				newer.At = r.At
			}
			store.Refs[word] = newer
		}
	}
	rec.Store = store
	c.rec = &rec
	store = rec.Copy().Store
	c.mu.Unlock()
	if err := c.save(); err != nil {
		c.mu.Lock()
		c.rec = before
		c.mu.Unlock()
		return meta.Store{}, err
	}
	return store, nil
}

// isFetchedAlways reports whether every fetch brings ref.
func isFetchedAlways(ref string) bool {
	return strings.HasPrefix(ref, "refs/heads/") || strings.HasPrefix(ref, "refs/tags/")
}

// newStore makes the clone's directories and an empty store under a temporary
// name in them.
func (c *Clone) newStore(ctx context.Context) (string, error) {
	for _, sub := range []string{"store", "trees", "refs", "cache", "workspaces"} {
		if err := durable.MkdirAll(filepath.Join(c.dir, sub), 0o755); err != nil {
			return "", err
		}
	}
	if err := writeManifest(c.dir, Manifest{Subject: string(c.subject), Repo: c.repo, CreatedAt: c.m.Now()}); err != nil {
		return "", err
	}
	dir, err := tempDir(filepath.Dir(c.storeDir()))
	if err != nil {
		return "", err
	}
	uid, gid := c.m.Git.Owner()
	if err := os.Chown(dir, uid, gid); err != nil {
		return "", err
	}
	return dir, c.m.Git.InitStore(ctx, dir)
}

// discardStore removes what newStore made.
func (c *Clone) discardStore(dir string) error {
	if ok, err := exists(dir); err != nil || !ok {
		return err // published, or never made
	}
	if _, err := c.m.Trash.Put(dir, "store"); err != nil {
		return err
	}
	for _, sub := range []string{"store", "trees", "refs", "cache", "workspaces"} {
		// Not empty: an earlier life of this clone; the sweep looks at it.
		_ = os.Remove(filepath.Join(c.dir, sub))
	}
	if left, err := os.ReadDir(c.dir); err != nil || len(left) > 1 {
		return err
	}
	if err := os.Remove(filepath.Join(c.dir, manifestName)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	_ = os.Remove(c.dir)
	_ = os.Remove(filepath.Dir(c.dir)) // the subject's, if this was its only clone
	return nil
}

// Manifest says what a clone's directory is, so that a lost database can be
// rebuilt.
type Manifest struct {
	Subject   string    `json:"subject"`
	Repo      string    `json:"repo"` // the normalized URL
	CreatedAt time.Time `json:"created_at"`
}

const manifestName = "manifest.json"

func writeManifest(dir string, m Manifest) error {
	data, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	return durable.WriteFile(filepath.Join(dir, manifestName), append(data, '\n'), 0o644)
}

func readManifest(dir string) (m Manifest, err error) {
	path := filepath.Join(dir, manifestName)
	data, err := os.ReadFile(path)
	if err != nil {
		return m, err
	}
	if err := json.Unmarshal(data, &m); err != nil {
		return m, fmt.Errorf("%s: %w", path, err)
	}
	return m, nil
}
