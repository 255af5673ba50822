package remote

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/disk/durable"
	"github.com/helmdeck/repos/internal/failpoint"
	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/git/giterror"
	"github.com/helmdeck/repos/internal/git/gitindex"
	"github.com/helmdeck/repos/internal/git/gitref"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/place"
	"github.com/helmdeck/repos/internal/volume"
	"github.com/helmdeck/repos/internal/work"
	"github.com/helmdeck/repos/internal/work/phase"
)

// fetched is the result of a fetch.
type fetched struct {
	store  meta.Store
	before []gitref.PackedRef // before the fetch
	refs   []gitref.PackedRef
	at     time.Time // the refs are those of the remote at that time or later
}

// brought reports whether no ref was at an object before the fetch. Then the fetch has checked that the store has
// what it reaches; it relies on that for the others.
func (f fetched) brought(id string) bool {
	return !slices.ContainsFunc(f.before, func(r gitref.PackedRef) bool { return r.ID == id })
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

// fetch fetches all branches and tags, and extra (a full ref, HEAD or a commit) if it is
// not empty, into the store of s.History. Into the cold store it fetches extra alone. It
// makes a missing store.
func (m *Remote) fetch(ctx context.Context, s Source, a Answer, extra string) (fetched, error) {
	defer phase.Begin(ctx, phase.Fetch)()
	key := strings.Join([]string{"fetch", s.History.Name(), s.URL.String(), s.Credential, fmt.Sprint(s.Pin), a.head, fmt.Sprint(a.sums), extra}, "\x00")
	return work.ShareTask(ctx, m.config.Used, key, func(ctx context.Context) (f fetched, err error) {
		err = m.config.WithRoom(ctx, disk.Size{}, func() error {
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
		return f, errColdEnded
	}
	if a.empty && s.History.Cold {
		return f, giterror.Empty(url, s.Ref.String()) // it has no newest commit, and the full history is as short
	}
	if !there {
		state = "cloning"
	}
	progress, end := m.Doing.Begin(ctx, state, url)
	defer end()
	f.at = m.config.Now()
	listed := false
	if a.empty && a.head == "" {
		if a.head, a.format, err = m.emptyRemote(ctx, s); err != nil {
			return f, err
		}
	}
	how := git.Fetch{Remote: m.at(s), Progress: progress, Depth: s.History.Depth, NoBlobs: s.History.NoBlobs, Only: s.History.Cold}
	if extra != "" {
		how.Refspecs = []string{"+" + extra + ":" + storedName(extra)}
	}
	if there {
		f.before, f.refs, listed, err = m.update(ctx, s, a, how)
	} else {
		f.refs, listed, err = m.clone(ctx, s, a, how)
	}
	if err != nil {
		return f, err
	}
	began := f.at
	if listed {
		f.at = a.res.At
		m.noteStored(s.History, a.number, a.sums)
	} else {
		// Answers that came meanwhile may be older than what git was told.
		m.noteStored(s.History, m.asked.Add(1), nil)
	}
	f.store, err = m.recordFetch(s, a, extra, f.at, f.before, f.refs)
	if err == nil {
		failpoint.Hit("remote/fetch/recorded")
		m.config.Measure(name)
		m.repackSoon(ctx, s)
		m.config.Log.WithContext(ctx).WithFields(map[string]any{
			"store": name, "repo": url, "refs": len(f.refs), "took": m.config.Now().Sub(began).String(),
		}).Infof("%s: done", state)
	}
	return f, err
}

// update fetches into the store of s.History, and returns its refs before and after, and whether
// these are those that the answer lists.
func (m *Remote) update(
	ctx context.Context, s Source, a Answer, how git.Fetch,
) (before, refs []gitref.PackedRef, listed bool, err error) {
	how.Store = m.StoreDir(s.History.Name())
	// A git that was killed may have left lock files.
	if err := git.SweepStore(how.Store); err != nil {
		return nil, nil, false, err
	}
	if before, err = m.config.Git.Refs(how.Store); err != nil {
		return nil, nil, false, err
	}
	if store, _ := m.Store(s.History); snapshot(before, store.Head) != store.Snapshot {
		a.listed = listing{} // git must ask again
	}
	refs, listed, err = m.receive(ctx, s, a, how, before, func() ([]gitref.PackedRef, error) {
		if how.Prune = !how.Only; how.Prune {
			how.Refspecs = append([]string{"+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*"}, how.Refspecs...)
		}
		if err := m.config.Git.Fetch(ctx, how); err != nil {
			return nil, err
		}
		return m.config.Git.Refs(how.Store)
	})
	return before, refs, listed, err
}

// receive fetches into a store with the refs before, and returns the new ones, and whether the
// answer lists them. If only git can do it, it calls throughGit.
func (m *Remote) receive(ctx context.Context, s Source, a Answer, how git.Fetch, before []gitref.PackedRef, throughGit func() ([]gitref.PackedRef, error)) (refs []gitref.PackedRef, listed bool, err error) {
	refs, listed, err = m.fetchListed(ctx, s, a, how, before)
	if err == nil && !listed {
		refs, err = throughGit()
	}
	if err == nil {
		failpoint.Hit("remote/fetch/fetched")
	}
	return refs, listed, err
}

// fetchListed fetches what an answer lists into a store with the refs before, and returns the new
// refs, which are on disk unless the store is new. It is not ok if it can't, because the answer does not
// list all branches and tags, for example: then git must ask again.
func (m *Remote) fetchListed(ctx context.Context, s Source, a Answer, how git.Fetch, before []gitref.PackedRef) (refs []gitref.PackedRef, ok bool, err error) {
	l := a.listed
	switch {
	case s.History.Cold && len(before) == 0 && !a.later && isBranchOrTag(a.res.Ref):
		l = listing{ids: map[string]string{a.res.Ref: a.res.Pulled}} // the store has no other
	case !l.all() || s.History != (volume.History{}) && len(l.ids) > 0 || len(how.Refspecs) > 0 || m.overtaken(s.History, a):
		return nil, false, nil
	}
	next, lacks, err := adopt(before, l, func(ids []string) (map[string]git.Object, error) {
		return m.config.Git.FetchPack(ctx, git.PackFetch{Fetch: how, Wants: ids, Haves: idsOf(before)})
	})
	if errors.Is(err, git.ErrThroughGit) {
		m.config.Log.WithContext(ctx).WithError(err).Debug("fetch")
		return nil, false, nil
	}
	if err != nil || lacks {
		return nil, false, err
	}
	if !how.New { // the packs must not be lost if the refs are on disk
		if err := durable.SyncDir(filepath.Join(how.Store, "objects/pack")); err != nil {
			return nil, false, err
		}
	}
	return next, true, m.config.Git.WriteRefs(how.Store, next, !how.New)
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

// clone makes the store of s.History under a temporary name, and returns what receive does.
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
	failpoint.Hit("remote/fetch/made")
	how.Store, how.New = temp, true
	if err := m.config.Git.MakeStore(temp, a.format); err != nil {
		return nil, false, err
	}
	if refs, listed, err = m.receive(ctx, s, a, how, nil, func() ([]gitref.PackedRef, error) {
		if err := disk.RemoveContents(temp); err != nil {
			return nil, err
		}
		return m.config.Git.Clone(ctx, how, a.format)
	}); err != nil {
		return nil, false, err
	}
	// The directories above too, so that the kernel commits all of it to its journal at once.
	if err := errors.Join(durable.SyncTree(temp), m.config.SyncDir()); err != nil {
		return nil, false, err
	}
	failpoint.Hit("remote/fetch/synced")
	// A directory without a record is a store that could not be set aside.
	if err := m.config.Trash.Clear(dir, "leftover", disk.Size{}); err != nil {
		return nil, false, err
	}
	if err := durable.Rename(temp, dir); err != nil {
		return nil, false, err
	}
	failpoint.Hit("remote/fetch/renamed")
	return refs, listed, nil
}

// recordFetch records that the store exists, with refs in place of those before, and where the
// refs that volumes name are after the fetch.
func (m *Remote) recordFetch(
	s Source, a Answer, extra string, at time.Time, before, refs []gitref.PackedRef,
) (meta.Store, error) {
	store := meta.Store{
		Sums:   sumsOf(refs),
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
		} else if r, ok := (fetched{store: store, refs: refs, at: at}).unborn(); ok && a.empty {
			store.Refs[s.Ref.String()] = r
		}
		m.expireLocked(s.History.Name(), store.Refs)
		m.moveOnLocked(s.History.Name(), before)
		recorded := store
		recorded.Refs = maps.Clone(store.Refs)
		return recorded, true
	})
	if err := m.config.Save(); err != nil {
		undo()
		return meta.Store{}, err
	}
	return store, nil
}

// snapshot identifies the refs of a store.
func snapshot(refs []gitref.PackedRef, head string) string {
	h := sha256.New()
	_ = gitref.WritePackedRefs(h, refs) // a hash takes everything
	io.WriteString(h, head)
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// newStore makes a directory with a temporary name for a store.
func (m *Remote) newStore() (string, error) {
	if err := m.config.MakeDir(); err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp(filepath.Join(m.config.Dir, place.Stores), durable.TempPrefix+"*")
	if err != nil {
		return "", err
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return "", err
	}
	uid, gid := m.config.Git.Owner()
	return dir, os.Chown(dir, uid, gid)
}

// discardStore removes a store that newStore made.
func (m *Remote) discardStore(h volume.History, dir string) error {
	if ok, err := disk.Exists(dir); err != nil || !ok {
		return err // it was renamed, or never made
	}
	if _, err := m.config.Trash.Put(dir, "store"); err != nil {
		return err
	}
	unlock, err := m.tryOther(h)
	if err != nil {
		return nil // another store is being made there
	}
	defer unlock()
	return m.config.RemoveDir()
}

// BringBlobs fetches the blobs that a checkout of commit needs into a store without blobs.
// It sends one request, as the fetching uid, because only that may talk to the remote.
// Other stores have all blobs.
func (m *Remote) BringBlobs(ctx context.Context, s Source, commit string, cone gitindex.Cone) error {
	if !s.History.NoBlobs || commit == "" {
		return nil
	}
	unlock, err := m.lock(ctx, s.History)
	if err != nil {
		return err
	}
	defer unlock()
	dir := m.StoreDir(s.History.Name())
	missing, err := m.config.Git.MissingBlobs(ctx, dir, commit, cone)
	if err != nil || len(missing) == 0 {
		return err
	}
	progress, end := m.Doing.Begin(ctx, "fetching files", s.URL.String())
	defer end()
	defer m.config.Measure(s.History.Name())
	err = m.config.Git.FetchObjects(ctx, git.Fetch{
		Store: dir, Remote: m.at(s), NoBlobs: true, Progress: progress,
	}, missing)
	if giterror.KindOf(err) == giterror.KindRefNotFound {
		// With protocol 0 a remote serves only what it has advertised, unless it is
		// configured otherwise.
		return fmt.Errorf("the remote gave the history without files, and refuses the files: use filter=none: %w", err)
	}
	return err
}
