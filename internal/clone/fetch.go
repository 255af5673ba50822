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

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/durable"
	"github.com/helmdeck/repos/internal/failpoint"
	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/work"
)

// fetched is what one fetch leaves behind.
type fetched struct {
	store meta.Store
	refs  []git.PackedRef
}

// storedAs returns the name under which the store keeps a ref of the remote.
// Branches and tags, which every fetch brings and prunes, keep theirs. Others are
// kept by hash: no two of them can be in each other's way as file and directory,
// and none can be taken for what is ours.
func storedAs(ref string) string {
	switch {
	case ref == "" || ref == "HEAD":
		return "refs/helmdeck/HEAD"
	case everyFetch(ref):
		return ref
	case strings.HasPrefix(ref, "refs/"):
		sum := sha256.Sum256([]byte(ref))
		return "refs/helmdeck/refs/" + hex.EncodeToString(sum[:16])
	}
	return "refs/helmdeck/commits/" + ref
}

// everyFetch reports whether every fetch brings a ref.
func everyFetch(ref string) bool {
	return strings.HasPrefix(ref, "refs/heads/") || strings.HasPrefix(ref, "refs/tags/")
}

// fetch brings all branches and tags, and extra (a full ref, HEAD or a commit)
// if it is not empty, into the store of s.History, which it makes when there is
// none.
func (c *Clone) fetch(ctx context.Context, s Spec, a Answer, extra string) (meta.Store, []git.PackedRef, error) {
	key := strings.Join([]string{"fetch", s.History.Name(), s.URL.String(), s.Credential, fmt.Sprint(s.Pin), a.head, extra}, "\x00")
	f, err := work.ShareTask(ctx, c.used, key, func(ctx context.Context) (fetched, error) {
		return WithRoom(ctx, c, disk.Size{}, func() (fetched, error) { return c.fetchNow(ctx, s, a, extra) })
	})
	return f.store, f.refs, err
}

func (c *Clone) fetchNow(ctx context.Context, s Spec, a Answer, extra string) (f fetched, err error) {
	unlock, err := c.lock(ctx)
	if err != nil {
		return f, err
	}
	defer unlock()
	name, url := s.History.Name(), s.URL.String()
	state, dir := "fetching", c.storeDir(name)
	_, there := c.store(s.History)
	if !there {
		state = "cloning"
		if dir, err = c.newStore(ctx, a.format); err != nil {
			return f, err
		}
		defer func() {
			if err != nil {
				err = errors.Join(err, c.discardStore(dir))
			}
		}()
		failpoint.Hit("clone/fetch/made")
	}
	// What an earlier git was killed over must not be in this one's way.
	if err := git.SweepStore(dir); err != nil {
		return f, err
	}
	progress, end := c.doing.Begin(ctx, state, url)
	defer end()
	began := c.m.Now()
	refspecs := []string{"+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*"}
	if extra != "" {
		refspecs = append(refspecs, "+"+extra+":"+storedAs(extra))
	}
	if err := c.m.Git.Fetch(ctx, git.Fetch{
		Store: dir, Remote: c.remote(s), Refspecs: refspecs, Prune: true, Progress: progress,
		Depth: s.History.Depth, NoBlobs: s.History.NoBlobs,
	}); err != nil {
		return f, err
	}
	failpoint.Hit("clone/fetch/fetched")
	if f.refs, err = git.Refs(dir); err != nil {
		return f, err
	}
	if !there {
		if err := durable.SyncTree(dir); err != nil {
			return f, err
		}
		failpoint.Hit("clone/fetch/synced")
		// What has that name and no record was to be set aside, and could not be.
		if err := c.m.Trash.Clear(c.storeDir(name), "leftover", disk.Size{}); err != nil {
			return f, err
		}
		if err := durable.Rename(dir, c.storeDir(name)); err != nil {
			return f, err
		}
		failpoint.Hit("clone/fetch/renamed")
		dir = c.storeDir(name)
	}
	f.store, err = c.fetchedNow(s, a, extra, began, f.refs)
	if err == nil {
		failpoint.Hit("clone/fetch/recorded")
		c.measureSoon(name)
		c.repackSoon(s)
		c.m.Log.WithFields(map[string]any{
			"clone": c.key, "store": name, "repo": url, "refs": len(f.refs), "took": c.m.Now().Sub(began).String(),
		}).Infof("%s: done", state)
	}
	return f, err
}

// fetchedNow commits what a fetch brought: where the refs that volumes name
// stand now, and that the store exists.
func (c *Clone) fetchedNow(s Spec, a Answer, extra string, at time.Time, refs []git.PackedRef) (meta.Store, error) {
	l := listingOf(refs)
	store := meta.Store{
		RefCount: len(l), RefSum: l.sum(),
		Format: a.format, ClonedAt: at, Snapshot: snapshot(refs, a.head), Head: a.head, FetchedAt: at,
		Refs: make(map[string]meta.Resolution),
	}
	c.mu.Lock()
	before := c.rec
	rec := meta.Clone{Key: c.key, Subject: string(c.subject), Repo: c.repo, CreatedAt: at}
	if before != nil {
		rec = before.Copy()
	}
	last, ok := rec.Stores[s.History.Name()]
	if ok {
		store.ClonedAt, store.Size = last.ClonedAt, last.Size
	}
	for word, r := range last.Refs {
		if word == "HEAD" && r.Ref != "" {
			r.Ref = a.head // the default branch may be another one
		}
		if r.Ref == "" || !everyFetch(r.Ref) && r.Ref != extra {
			store.Refs[word] = r // a commit, or not asked for
			continue
		}
		// What the remote no longer has is forgotten; the next question tells.
		if newer, ok := lookUp(refs, r.Ref, at); ok {
			store.Refs[word] = newer
		}
	}
	c.fade(s.History.Name(), store.Refs)
	if rec.Stores == nil {
		rec.Stores = make(map[string]meta.Store)
	}
	rec.Stores[s.History.Name()] = store
	c.rec = &rec
	store = rec.Copy().Stores[s.History.Name()]
	c.mu.Unlock()
	if err := c.save(); err != nil {
		c.mu.Lock()
		c.rec = before
		c.mu.Unlock()
		return meta.Store{}, err
	}
	return store, nil
}

// snapshot identifies the refs of a store.
func snapshot(refs []git.PackedRef, head string) string {
	sum := sha256.Sum256(append(git.FormatPackedRefs(refs), head...))
	return hex.EncodeToString(sum[:8])
}

// newStore makes the clone's directories and an empty store under a temporary
// name in them.
func (c *Clone) newStore(ctx context.Context, format string) (string, error) {
	if err := c.makeDirs(); err != nil {
		return "", err
	}
	if err := writeManifest(c.dir, Manifest{Subject: string(c.subject), Repo: c.repo, CreatedAt: c.m.Now()}); err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp(filepath.Join(c.dir, "store"), durable.TempPrefix+"*")
	if err != nil {
		return "", err
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return "", err
	}
	uid, gid := c.m.Git.Owner()
	if err := os.Chown(dir, uid, gid); err != nil {
		return "", err
	}
	return dir, c.m.Git.InitStore(ctx, dir, format)
}

// makeDirs makes the clone's directories. The subject's goes with its last clone,
// and that may be now.
func (c *Clone) makeDirs() (err error) {
	for range 3 {
		for _, sub := range cloneDirs {
			if err = durable.MkdirAll(filepath.Join(c.dir, sub), 0o755); err != nil {
				break
			}
		}
		if !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return err
}

var cloneDirs = []string{"store", "cache", "workspaces"}

// discardStore removes what newStore made.
func (c *Clone) discardStore(dir string) error {
	if ok, err := exists(dir); err != nil || !ok {
		return err // published, or never made
	}
	if _, err := c.m.Trash.Put(dir, "store"); err != nil {
		return err
	}
	for _, sub := range cloneDirs {
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
