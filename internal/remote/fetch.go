package remote

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/durable"
	"github.com/helmdeck/repos/internal/failpoint"
	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/giterror"
	"github.com/helmdeck/repos/internal/gitindex"
	"github.com/helmdeck/repos/internal/gitref"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/phase"
	"github.com/helmdeck/repos/internal/volume"
	"github.com/helmdeck/repos/internal/work"
)

// fetched is the result of a fetch.
type fetched struct {
	store meta.Store
	refs  []gitref.PackedRef
	at    time.Time // the refs are those of the remote at that time or later
}

// storedName returns the name of a remote's ref, or of a commit, in the store. Branches
// and tags, which every fetch updates and prunes, keep their names. Other refs are named
// by a hash, so that no name is a directory of another, and none is one of ours.
func storedName(ref string) string {
	switch {
	case ref == "" || ref == "HEAD":
		return "refs/helmdeck/HEAD"
	case isBranchOrTag(ref):
		return ref
	case strings.HasPrefix(ref, "refs/"):
		sum := sha256.Sum256([]byte(ref))
		return "refs/helmdeck/refs/" + hex.EncodeToString(sum[:16])
	}
	return "refs/helmdeck/commits/" + ref
}

// isBranchOrTag reports whether a full ref name is a branch or tag: each fetch updates all
// of those.
func isBranchOrTag(ref string) bool {
	return strings.HasPrefix(ref, "refs/heads/") || strings.HasPrefix(ref, "refs/tags/")
}

// fetch fetches all branches and tags, and extra (a full ref, HEAD or a commit) if it is
// not empty, into the store of s.History. Into the cold store it fetches extra alone. It
// makes a missing store.
func (m *Remote) fetch(ctx context.Context, s Source, a Answer, extra string) (fetched, error) {
	defer phase.Begin(ctx, phase.Fetch)()
	key := strings.Join([]string{"fetch", s.History.Name(), s.URL.String(), s.Credential, fmt.Sprint(s.Pin), a.head, a.sum, extra}, "\x00")
	return work.ShareTask(ctx, m.Used, key, func(ctx context.Context) (f fetched, err error) {
		err = m.WithRoom(ctx, disk.Size{}, func() error {
			f, err = m.fetchNow(ctx, s, a, extra)
			return err
		})
		return f, err
	})
}

func (m *Remote) fetchNow(ctx context.Context, s Source, a Answer, extra string) (f fetched, err error) {
	unlock, err := m.lock(ctx, s.History)
	if err != nil {
		return f, err
	}
	defer unlock()
	name, url := s.History.Name(), s.URL.String()
	state := "fetching"
	_, there := m.Store(s.History)
	if !there && s.History.Cold && m.has(volume.History{}) {
		return f, ErrColdEnded
	}
	if !there {
		state = "cloning"
	}
	progress, end := m.Doing.Begin(ctx, state, url)
	defer end()
	f.at = m.Now()
	listed := false
	how := git.Fetch{Remote: m.at(s), Progress: progress, Depth: s.History.Depth, NoBlobs: s.History.NoBlobs, Only: s.History.Cold}
	if extra != "" {
		how.Refspecs = []string{"+" + extra + ":" + storedName(extra)}
	}
	if there {
		f.refs, listed, err = m.update(ctx, s, a, how)
	} else {
		f.refs, listed, err = m.clone(ctx, s, a, how)
	}
	if err != nil {
		return f, err
	}
	began := f.at
	if listed {
		f.at = a.res.At
		m.settle(s.History, a.number, a.sum)
	} else {
		// Answers that came meanwhile may be older than what git was told.
		m.settle(s.History, m.asked.Add(1), "")
	}
	f.store, err = m.recordFetch(s, a, extra, f.at, f.refs)
	if err == nil {
		failpoint.Hit("clone/fetch/recorded")
		m.Measure(name)
		m.repackSoon(ctx, s)
		m.Log.WithContext(ctx).WithFields(map[string]any{
			"store": name, "repo": url, "refs": len(f.refs), "took": m.Now().Sub(began).String(),
		}).Infof("%s: done", state)
	}
	return f, err
}

// update fetches into the store of s.History, and returns its refs, and whether these are
// those that the answer lists.
func (m *Remote) update(ctx context.Context, s Source, a Answer, how git.Fetch) (refs []gitref.PackedRef, listed bool, err error) {
	how.Store = m.StoreDir(s.History.Name())
	// A git that was killed may have left lock files.
	if err := git.SweepStore(how.Store); err != nil {
		return nil, false, err
	}
	before, err := git.Refs(how.Store)
	if err != nil {
		return nil, false, err
	}
	if store, _ := m.Store(s.History); snapshot(before, store.Head) != store.Snapshot {
		a.sum = "" // git must ask again
	}
	return m.receive(ctx, s, a, how, before, func() ([]gitref.PackedRef, error) {
		if how.Prune = !how.Only; how.Prune {
			how.Refspecs = append([]string{"+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*"}, how.Refspecs...)
		}
		if err := m.Git.Fetch(ctx, how); err != nil {
			return nil, err
		}
		return git.Refs(how.Store)
	})
}

// receive fetches into a store with the refs before, and returns what update does. If only
// git can do it, it calls throughGit.
func (m *Remote) receive(ctx context.Context, s Source, a Answer, how git.Fetch, before []gitref.PackedRef, throughGit func() ([]gitref.PackedRef, error)) (refs []gitref.PackedRef, listed bool, err error) {
	refs, listed, err = m.fetchListed(ctx, s, a, how, before)
	if err == nil && !listed {
		refs, err = throughGit()
	}
	if err == nil {
		failpoint.Hit("clone/fetch/fetched")
	}
	return refs, listed, err
}

// fetchListed fetches what an answer lists into a store with the refs before, and returns the new
// refs, which are on disk if before has any. It is not ok if it can't, because the answer does not
// list all branches and tags, for example: then git must ask again.
func (m *Remote) fetchListed(ctx context.Context, s Source, a Answer, how git.Fetch, before []gitref.PackedRef) (refs []gitref.PackedRef, ok bool, err error) {
	l := a.listed
	switch {
	case s.History.Cold && len(before) == 0 && !a.later && isBranchOrTag(a.res.Ref):
		l = listing{a.res.Ref: a.res.Pulled} // the store has no other
	case a.sum == "" || a.sum == tooMany || s.History != (volume.History{}) || len(how.Refspecs) > 0 || m.outdated(s.History, a):
		return nil, false, nil
	}
	next, lacks, err := adopt(before, l, func(ids []string) (map[string]git.Object, error) {
		return m.Git.FetchPack(ctx, git.PackFetch{Fetch: how, Wants: ids, Haves: idsOf(before)})
	})
	if errors.Is(err, git.ErrThroughGit) {
		m.Log.WithContext(ctx).WithError(err).Debug("fetch")
		return nil, false, nil
	}
	if err != nil || lacks {
		return nil, false, err
	}
	// The packs must not be lost if the refs are on disk.
	if err := durable.SyncDir(filepath.Join(how.Store, "objects/pack")); err != nil {
		return nil, false, err
	}
	return next, true, m.Git.WriteRefs(how.Store, next)
}

// maxHaves bounds the objects that a fetch names to the remote.
const maxHaves = 256

// idsOf returns the objects that refs point to, each once.
func idsOf(refs []gitref.PackedRef) []string {
	var ids []string
	add := func(ofBranchesAndTags bool) {
		for _, r := range refs {
			if isBranchOrTag(r.Name) == ofBranchesAndTags && !slices.Contains(ids, r.ID) && len(ids) < maxHaves {
				ids = append(ids, r.ID)
			}
		}
	}
	add(true) // the remote is most likely to have these
	add(false)
	return ids
}

// clone makes the store of s.History under a temporary name, and returns what update does.
// The store and the directories above are on disk then.
func (m *Remote) clone(ctx context.Context, s Source, a Answer, how git.Fetch) (refs []gitref.PackedRef, listed bool, err error) {
	dir := m.StoreDir(s.History.Name())
	temp, err := m.newStore()
	if err != nil {
		return nil, false, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, m.discardStore(s.History, temp))
		}
	}()
	failpoint.Hit("clone/fetch/made")
	how.Store, how.New = temp, true
	if err := m.Git.MakeStore(temp, a.format); err != nil {
		return nil, false, err
	}
	if refs, listed, err = m.receive(ctx, s, a, how, nil, func() ([]gitref.PackedRef, error) {
		if err := disk.RemoveContents(temp); err != nil {
			return nil, err
		}
		return m.Git.Clone(ctx, how, a.format)
	}); err != nil {
		return nil, false, err
	}
	if err := durable.SyncTree(temp); err != nil {
		return nil, false, err
	}
	failpoint.Hit("clone/fetch/synced")
	// A directory without a record is a store that could not be set aside.
	if err := m.Trash.Clear(dir, "leftover", disk.Size{}); err != nil {
		return nil, false, err
	}
	if err := durable.Rename(temp, dir); err != nil {
		return nil, false, err
	}
	failpoint.Hit("clone/fetch/renamed")
	return refs, listed, m.SyncDir()
}

// recordFetch records that the store exists, and where the refs that volumes name are
// after the fetch.
func (m *Remote) recordFetch(s Source, a Answer, extra string, at time.Time, refs []gitref.PackedRef) (meta.Store, error) {
	l := listingOf(refs)
	store := meta.Store{
		RefCount: len(l), RefSum: l.sum(),
		Format: a.format, ClonedAt: at, Snapshot: snapshot(refs, a.head), Head: a.head, FetchedAt: at,
		Refs: make(map[string]meta.Resolution),
	}
	undo, _ := m.change(s.History.Name(), func(last meta.Store, ok bool) (meta.Store, bool) {
		if ok {
			store.ClonedAt, store.Size = last.ClonedAt, last.Size
		}
		for name, r := range last.Refs {
			ref := r.Ref
			if name == "HEAD" && ref != "" {
				ref = a.head // the default branch may be another one
			}
			if s.History.Cold && ref != extra {
				store.Refs[name] = r // not fetched this time
				continue
			}
			r.Ref = ref
			if r.Ref == "" || !isBranchOrTag(r.Ref) && r.Ref != extra {
				store.Refs[name] = r // a commit, or not fetched this time
				continue
			}
			// A ref that the remote no longer has is dropped; the next question reports it.
			if newer, ok := LookUp(refs, r.Ref, at); ok {
				store.Refs[name] = newer
			}
		}
		// Now, so that recordRef has nothing to save.
		if r, ok := LookUp(refs, a.res.Ref, at); ok && !a.later && a.res.Pulled != "" {
			store.Refs[s.Ref.String()] = r
		}
		m.expireLocked(s.History.Name(), store.Refs)
		recorded := store
		recorded.Refs = maps.Clone(store.Refs)
		return recorded, true
	})
	if err := m.Save(); err != nil {
		undo()
		return meta.Store{}, err
	}
	return store, nil
}

// snapshot identifies the refs of a store.
func snapshot(refs []gitref.PackedRef, head string) string {
	sum := sha256.Sum256(append(gitref.FormatPackedRefs(refs), head...))
	return hex.EncodeToString(sum[:8])
}

// newStore makes a directory with a temporary name for a store.
func (m *Remote) newStore() (string, error) {
	if err := m.MakeDir(); err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp(filepath.Join(m.Dir, "store"), durable.TempPrefix+"*")
	if err != nil {
		return "", err
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return "", err
	}
	uid, gid := m.Git.Owner()
	return dir, os.Chown(dir, uid, gid)
}

// discardStore removes a store that newStore made.
func (m *Remote) discardStore(h volume.History, dir string) error {
	if ok, err := disk.Exists(dir); err != nil || !ok {
		return err // it was renamed, or never made
	}
	if _, err := m.Trash.Put(dir, "store"); err != nil {
		return err
	}
	unlock, err := m.tryOther(h)
	if err != nil {
		return nil // another store is being made there
	}
	defer unlock()
	return m.RemoveDir()
}

// BringBlobs fetches the blobs that a checkout of commit needs into a store without blobs.
// It sends one request, as the fetching uid, because only that may talk to the remote.
// Other stores have all blobs.
func (m *Remote) BringBlobs(ctx context.Context, s Source, commit string, cone gitindex.Cone) error {
	if !s.History.NoBlobs {
		return nil
	}
	unlock, err := m.lock(ctx, s.History)
	if err != nil {
		return err
	}
	defer unlock()
	dir := m.StoreDir(s.History.Name())
	missing, err := m.Git.MissingBlobs(ctx, dir, commit, cone)
	if err != nil || len(missing) == 0 {
		return err
	}
	progress, end := m.Doing.Begin(ctx, "fetching files", s.URL.String())
	defer end()
	defer m.Measure(s.History.Name())
	err = m.Git.FetchObjects(ctx, git.Fetch{
		Store: dir, Remote: m.at(s), NoBlobs: true, Progress: progress,
	}, missing)
	if giterror.KindOf(err) == giterror.KindRefNotFound {
		// With protocol 0 a remote serves only what it has advertised, unless it is
		// configured otherwise.
		return fmt.Errorf("the remote gave the history without files, and refuses the files: use filter=none: %w", err)
	}
	return err
}
