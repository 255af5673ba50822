package remote

import (
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/git/gitref"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/volume"
)

// Records are the records of the stores of a Remote. All methods use memory only.
type Records struct {
	now func() time.Time

	mu       sync.Mutex            // never held over I/O
	stores   map[string]meta.Store // by the names of their histories; nil: nothing was fetched
	retained map[namedRef]int      // the number of volumes that name a ref
	lists    map[string]*refList   // of the stores as they are now, by their names
}

// refList stands for the refs that a store has in one state. They are not in memory as long as the store has them.
type refList struct {
	moved bool // the store has others now, and refs has these
	refs  []gitref.PackedRef
}

// listLocked returns what stands for the refs of a store as it is now.
func (c *Records) listLocked(name string) *refList {
	l, ok := c.lists[name]
	if !ok {
		if c.lists == nil {
			c.lists = make(map[string]*refList)
		}
		l = new(refList)
		c.lists[name] = l
	}
	return l
}

// moveOnLocked is called when a store that had the refs old gets others. Snapshots from before keep them. It is called
// with the lock of the store held, too.
func (c *Records) moveOnLocked(name string, old []gitref.PackedRef) {
	if l, ok := c.lists[name]; ok {
		l.moved, l.refs = true, old
		delete(c.lists, name)
	}
}

// listed returns the record of a store, without its refs, and what stands for these.
func (c *Records) listed(h volume.History) (store meta.Store, list *refList) {
	c.mu.Lock()
	defer c.mu.Unlock()
	store = c.stores[h.Name()]
	store.Refs = nil
	return store, c.listLocked(h.Name())
}

// movedRefs returns the refs of a list, if the store has moved on.
func (c *Records) movedRefs(l *refList) (refs []gitref.PackedRef, moved bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return l.refs, l.moved
}

// namedRef is a ref as volumes name it, and the name of its history.
type namedRef struct{ history, ref string }

func newRecords(now func() time.Time, stores map[string]meta.Store) Records {
	for name, store := range stores {
		if store.Refs == nil { // the database does not keep an empty map
			store.Refs = make(map[string]meta.Resolution)
			stores[name] = store
		}
	}
	return Records{now: now, stores: stores, retained: make(map[namedRef]int)}
}

// Fetched reports whether a store was fetched. It may have been set aside since.
func (c *Records) Fetched() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stores != nil
}

// Stores returns a copy of the records of all stores by name; nil if nothing was fetched.
func (c *Records) Stores() map[string]meta.Store {
	c.mu.Lock()
	defer c.mu.Unlock()
	return meta.Clone{Stores: c.stores}.Copy().Stores
}

// Size returns the size of all stores, as far as it was measured. It is not ok if nothing
// was fetched.
func (c *Records) Size() (sum disk.Size, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, store := range c.stores {
		sum = sum.Add(store.Size.Size)
	}
	return sum, c.stores != nil
}

// Store returns a copy of the record of a store.
func (c *Records) Store(h volume.History) (store meta.Store, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	store, ok = c.stores[h.Name()]
	store.Refs = maps.Clone(store.Refs)
	return store, ok
}

// HasStore reports whether a directory name is that of a store with a record.
func (c *Records) HasStore(dir string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	name, ok := strings.CutSuffix(dir, ".git")
	_, known := c.stores[name]
	return ok && known
}

// Serving returns the history that serves s now: volume.ColdHistory if s allows it, and
// there is no store of s.History.
func (c *Records) Serving(s Source) volume.History {
	if s.ColdShallow && !c.has(s.History) {
		return volume.ColdHistory
	}
	return s.History
}

// has reports whether there is a store of a history.
func (c *Records) has(h volume.History) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, ok := c.stores[h.Name()]
	return ok
}

// ColdEnds reports whether there is a cold store, and the full one that takes its place.
func (c *Records) ColdEnds() bool {
	return c.has(volume.History{}) && c.has(volume.ColdHistory)
}

// Resolution returns the last known resolution of s.Ref.
func (c *Records) Resolution(s Source) (meta.Resolution, bool) {
	h := s.History
	if s.ColdShallow {
		h = c.Serving(s)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	r, ok := c.stores[h.Name()].Refs[s.Ref.String()]
	return r, ok
}

// change calls f with the record of a store, and replaces it with the result if f returns
// true. undo restores the old record, unless Forget was called meanwhile. It leaves those
// of other stores, which other fetches may have saved meanwhile.
func (c *Records) change(name string, f func(last meta.Store, ok bool) (now meta.Store, change bool)) (undo func(), changed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	last, ok := c.stores[name]
	now, changed := f(last, ok)
	if !changed {
		return nil, false
	}
	first := c.stores == nil
	if first {
		c.stores = make(map[string]meta.Store)
	}
	c.stores[name] = now
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		switch {
		case c.stores == nil:
		case ok:
			c.stores[name] = last
		default:
			delete(c.stores, name)
			if first && len(c.stores) == 0 {
				c.stores = nil
			}
		}
	}, true
}

// remove deletes the records of stores. undo restores them, unless Forget was called
// meanwhile.
func (c *Records) remove(names ...string) (undo func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := maps.Clone(c.stores)
	for _, name := range names {
		delete(c.stores, name)
	}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, name := range names {
			if store, ok := before[name]; ok && c.stores != nil {
				c.stores[name] = store
			}
		}
	}
}

// Forget deletes all records, as if nothing had been fetched. undo restores them.
func (c *Records) Forget() (undo func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.stores
	c.stores = nil
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.stores = before
	}
}

// SetSize sets the size of a store, if it has a record.
func (c *Records) SetSize(name string, size meta.Measured) {
	c.change(name, func(store meta.Store, ok bool) (meta.Store, bool) {
		store.Size = size
		return store, ok
	})
}

// RetainRef counts a volume that names s.Ref. Its resolution is kept until ReleaseRef has
// been called as often.
func (c *Records) RetainRef(s Source) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.retained[namedRef{s.History.Name(), s.Ref.String()}]++
}

// ReleaseRef undoes one RetainRef.
func (c *Records) ReleaseRef(s Source) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := namedRef{s.History.Name(), s.Ref.String()}
	if c.retained[n]--; c.retained[n] <= 0 {
		delete(c.retained, n)
	}
}

// refTTL is how long the resolution of a ref that no volume names is kept. Until then its
// trees stay for the next volume, because some runtimes remove their volumes with each
// container. Without a limit, jobs that each name another commit would add records and
// trees for ever.
const refTTL = 24 * time.Hour

// expireLocked deletes from a store's refs those that no volume names and that were not
// resolved within refTTL.
func (c *Records) expireLocked(history string, refs map[string]meta.Resolution) {
	now := c.now()
	maps.DeleteFunc(refs, func(ref string, r meta.Resolution) bool {
		return c.retained[namedRef{history, ref}] == 0 && now.Sub(r.At) > refTTL
	})
}
