package remote

import (
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/volume"
)

// Records are what is known of the stores of a Remote. All methods answer from memory.
type Records struct {
	now func() time.Time

	mu       sync.Mutex            // never held over I/O
	stores   map[string]meta.Store // by the names of their histories; nil: nothing was fetched
	retained map[namedRef]int      // by volumes
}

// namedRef is a ref as volumes name it, in the store of a history.
type namedRef struct{ history, ref string }

func newRecords(now func() time.Time, stores map[string]meta.Store) Records {
	for name, store := range stores {
		if store.Refs == nil { // none, as the database has it
			store.Refs = make(map[string]meta.Resolution)
			stores[name] = store
		}
	}
	return Records{now: now, stores: stores, retained: make(map[namedRef]int)}
}

// Fetched reports whether anything was fetched. All stores may have been set aside since.
func (c *Records) Fetched() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stores != nil
}

// Stores returns the records of all stores, as a copy; nil if nothing was fetched.
func (c *Records) Stores() map[string]meta.Store {
	c.mu.Lock()
	defer c.mu.Unlock()
	return meta.Clone{Stores: c.stores}.Copy().Stores
}

// Store returns a copy of the record of a store.
func (c *Records) Store(h volume.History) (store meta.Store, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	store, ok = c.stores[h.Name()]
	store.Refs = maps.Clone(store.Refs)
	return store, ok
}

// HasStore reports whether a directory is that of a store which has a record.
func (c *Records) HasStore(dir string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	name, ok := strings.CutSuffix(dir, ".git")
	_, known := c.stores[name]
	return ok && known
}

// Resolution returns what s.Ref stood for when the remote was last asked.
func (c *Records) Resolution(s Source) (meta.Resolution, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r, ok := c.stores[s.History.Name()].Refs[s.Ref.String()]
	return r, ok
}

// change replaces the record of a store with what f returns, if f says so: it is given
// the one that there is. undo puts that back, unless all records are gone by then.
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
		case first:
			c.stores = nil
		case c.stores == nil:
		case ok:
			c.stores[name] = last
		default:
			delete(c.stores, name)
		}
	}, true
}

// drop deletes the records of stores. undo puts them back, unless all are gone by then.
func (c *Records) drop(names ...string) (undo func()) {
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

// Forget deletes all records, as if nothing had been fetched. undo puts them back.
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

// SetSize notes the size of a store.
func (c *Records) SetSize(name string, size meta.Measured) {
	c.change(name, func(store meta.Store, ok bool) (meta.Store, bool) {
		store.Size = size
		return store, ok
	})
}

// RetainRef says that a volume names s.Ref: what is known of it is kept until ReleaseRef
// was called as often.
func (c *Records) RetainRef(s Source) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.retained[namedRef{s.History.Name(), s.Ref.String()}]++
}

// ReleaseRef takes a RetainRef back.
func (c *Records) ReleaseRef(s Source) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := namedRef{s.History.Name(), s.Ref.String()}
	if c.retained[n]--; c.retained[n] <= 0 {
		delete(c.retained, n)
	}
}

// refTTL is how long a ref is remembered that no volume names: its trees stay for the
// next volume, because the runtimes that this is for remove theirs with each container.
// Jobs that name a commit each would otherwise add to the record, and to the trees,
// without an end.
const refTTL = 24 * time.Hour

// expireLocked drops from a store's refs those that no volume names, and that the remote
// or the store was not asked for lately.
func (c *Records) expireLocked(history string, refs map[string]meta.Resolution) {
	now := c.now()
	maps.DeleteFunc(refs, func(ref string, r meta.Resolution) bool {
		return c.retained[namedRef{history, ref}] == 0 && now.Sub(r.At) > refTTL
	})
}
