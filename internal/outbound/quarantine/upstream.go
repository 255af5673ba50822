package quarantine

import (
	"bytes"
	"errors"
	"fmt"
	"hash/maphash"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/helmdeck/repos/internal/git/gitref"
)

// Upstream is what the remote of a workspace has by now, as far as the clone's store knows it. Close it.
type Upstream struct {
	dir     string
	commit  string // where the volume's ref is; empty if that is not known
	shallow []byte // where the store's history ends; nil if it is complete
}

// Upstream takes what a store has, a bare repository to which only the plugin writes: its refs, and the packs as hard links.
// commit is the object that the volume's ref is at, or empty. link calls a function while nothing changes the store.
func (q *Quarantine) Upstream(store, commit string, link func(f func() error) error) (u *Upstream, err error) {
	u = &Upstream{commit: commit}
	if u.dir, err = os.MkdirTemp(q.Dir, "remote-*"); err != nil {
		return nil, fmt.Errorf("take what the remote has: %w", err)
	}
	if err = os.Chmod(u.dir, 0o711); err == nil {
		err = link(func() error { return u.link(store) })
	}
	if err != nil {
		return nil, fmt.Errorf("take what the remote has: %w", errors.Join(err, u.Close()))
	}
	return u, nil
}

// Close removes the links.
func (u *Upstream) Close() error { return os.RemoveAll(u.dir) }

func (u *Upstream) objects() string { return filepath.Join(u.dir, "objects") }
func (u *Upstream) refs() string    { return filepath.Join(u.dir, "refs") }

// link links what matters of the store.
func (u *Upstream) link(store string) (err error) {
	if u.shallow, err = os.ReadFile(filepath.Join(store, "shallow")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	// The file is replaced by another one when the refs change, and never written to.
	if err := os.Link(filepath.Join(store, "packed-refs"), u.refs()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	objects := filepath.Join(store, "objects")
	packs, err := os.ReadDir(filepath.Join(objects, "pack"))
	if err != nil {
		return err
	}
	return linkPacks(objects, u.objects(), func(yield func(string) bool) {
		for _, e := range packs { // an interrupted git leaves files with other names
			if strings.HasPrefix(e.Name(), "pack-") && !yield(e.Name()) {
				return
			}
		}
	})
}

// Began reports whether a ref was at a commit when the workspace began.
func (r *Repo) Began(id string) bool { return r.layer.has(id) }

// Follow makes Take leave out what the volume's ref has by now, and those branches of the remote which the volume began
// with, or which have one of the names. Only counts may use it: what is pushed has to be all that is new.
//
// Others do not count: somebody who pushed to a branch of another name is still ahead of those that he works on.
func (r *Repo) Follow(u *Upstream, names []string) { r.upstream, r.upstreamNames = u, names }

// follows reads where the remote's branches are.
func (t *Taken) follows(r *Repo) (err error) {
	t.upstream = r.upstream
	t.layer.moved, err = t.layer.movedTo(t.upstream.refs(), r.upstreamNames)
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // without any ref there is no file
		return fmt.Errorf("read what the remote has: %w", err)
	}
	if id := t.upstream.commit; t.layer.fits(id) && !t.layer.has(id) {
		t.layer.moved.size = len(id) / 2
		t.layer.moved.add([]byte(id))
	}
	if len(t.upstream.shallow) > 0 {
		t.layer.shallow = slices.Concat(t.layer.shallow, t.upstream.shallow)
	}
	return nil
}

// fits reports whether an ID has the format of the layer.
func (l layer) fits(id string) bool { return gitref.IsObjectID(id) && gitref.Format(id) == l.format }

// movedTo returns where those branches in the packed-refs of the remote are that the layer has, or that have one
// of the names, but for those that are where the layer has a ref.
func (l layer) movedTo(refs string, names []string) (ids objectIDs, err error) {
	seed := maphash.MakeSeed() // the names of half a million branches would take much memory
	var began []uint64
	err = eachRef(filepath.Join(l.git, "packed-refs"), func(_, ref []byte) error {
		if name, ok := bytes.CutPrefix(ref, []byte("refs/remotes/origin/")); ok {
			began = append(began, maphash.Bytes(seed, name))
		}
		return nil
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return ids, err
	}
	slices.Sort(began)
	err = eachRef(refs, func(id, ref []byte) error {
		name, ok := bytes.CutPrefix(ref, []byte(heads))
		if !ok || !l.fits(string(id)) || l.has(string(id)) {
			return nil
		}
		if _, ok := slices.BinarySearch(began, maphash.Bytes(seed, name)); ok || slices.Contains(names, string(name)) {
			ids.size = len(id) / 2
			ids.add(id)
		}
		return nil
	})
	ids.sort()
	return ids, err
}
