package clone

import (
	"slices"
	"time"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/repo/layer"
	"github.com/helmdeck/repos/internal/repo/remote"
	"github.com/helmdeck/repos/internal/repo/tree"
	"github.com/helmdeck/repos/internal/volume"
)

// Info describes a clone for the janitor. It shares no memory with the clone.
type Info struct {
	Key, Subject, Repo string
	CreatedAt, Used    time.Time
	Mounted            bool   // a Mount has used it
	Busy               string // why it can't be evicted now; empty if it can
	// Working is set while a Create, a Mount or work in the background uses it, except
	// work that yields, and Attended if an urgent caller waits for that.
	Working, Attended bool
	Stores            map[string]meta.Measured // sizes by the names of histories
	LFS               meta.Measured            // size of the LFS objects
	Layers            []LayerInfo
}

// LayerInfo describes a tree or a git layer for the janitor.
type LayerInfo struct {
	ID              string
	Kind            string // "tree" or "git layer"
	CreatedAt, Used time.Time
	Size            meta.Measured
	Held            bool // a workspace in any phase, or a build, stands on it: it can't be evicted
	// Need says what needs it: a holder, or a ref at its commit. If it is evicted in spite
	// of a ref, the next Mount builds it again. Empty if nothing needs it.
	Need  string
	Below []string // the trees it stands on, which must not be evicted before it
}

// Inventory describes all clones, from memory.
func (m *Manager) Inventory() []Info {
	var list []Info
	for _, c := range m.all() {
		if info, ok := c.Info(); ok {
			list = append(list, info)
		}
	}
	return list
}

// Keys lists the keys of the clones that exist or are being made, in no order, from memory.
func (m *Manager) Keys() []string {
	var keys []string
	for _, c := range m.all() {
		if c.remote.Fetched() || c.beingMade() {
			keys = append(keys, c.Key)
		}
	}
	return keys
}

// beingMade reports whether the remote of a clone without a record is asked or fetched. Other tasks, such as a measurement
// that has waited for an eviction, may run on a clone that no longer exists.
func (c *Clone) beingMade() bool { return c.Doing().State != "" }

// Info describes one clone, from memory. It is not ok if the clone neither exists nor is
// being made.
func (c *Clone) Info() (info Info, ok bool) {
	rec, made := c.record()
	used := c.used.Usage()
	if c.Trees.Held() && !used.Yields { // a build that yields holds layers too
		used.Busy = heldBusy
	}
	if !made {
		if !c.beingMade() {
			return Info{}, false
		}
		rec.CreatedAt = c.m.config.Now()
	}
	info = Info{
		Key: c.Key, Subject: rec.Subject, Repo: rec.Repo, CreatedAt: rec.CreatedAt, Used: latest(rec.Used, rec.CreatedAt),
		Mounted: !rec.FirstMount.IsZero(), Busy: used.Busy, Working: used.Used, Attended: used.Attended, LFS: rec.LFS,
		Stores: make(map[string]meta.Measured, len(rec.Stores)),
	}
	for name, s := range rec.Stores {
		info.Stores[name] = s.Size
	}
	if !made {
		return info, true
	}
	list := c.layers.List(tree.Kinds...)
	needs := c.Trees.Needs(list)
	for _, l := range list {
		if !info.Mounted { // built for a first Mount, although its client may have given up
			info.Used = latest(info.Used, l.CreatedAt)
		}
		info.Layers = append(info.Layers, LayerInfo{
			ID: l.ID, Kind: string(l.Kind), CreatedAt: l.CreatedAt, Used: latest(l.Used, l.CreatedAt), Size: l.Size,
			Held: c.layers.Held(l.Kind, l.ID), Need: needs[l.ID], Below: slices.Clone(l.Stack()[1:]),
		})
	}
	return info, true
}

// Sizes says what a clone takes on disk, as far as it was measured.
type Sizes struct {
	Store, LFS disk.Size
	layer.Sizes
}

// EachSize calls f with the subject and the sizes of each clone that was fetched. It uses
// memory only, and copies less than Inventory.
func (m *Manager) EachSize(f func(subject string, s Sizes)) {
	for _, c := range m.all() {
		store, ok := c.remote.Size()
		if !ok {
			continue
		}
		s := Sizes{Store: store, Sizes: c.layers.Sizes()}
		c.mu.Lock()
		s.LFS = c.rec.LFS.Size
		c.mu.Unlock()
		f(string(c.Subject), s)
	}
}

// Description describes a clone to people. It shares no memory with the clone.
type Description struct {
	Info
	Status
	Records map[string]meta.Store // of the stores, by the names of histories
}

// Describe describes the clone of a key, from memory. It is not ok if the clone neither
// exists nor is being made.
func (m *Manager) Describe(key string) (d Description, ok bool) {
	c := m.Lookup(key)
	if c == nil {
		return d, false
	}
	if d.Info, ok = c.Info(); ok {
		d.Status, d.Records = c.Status(volume.History{}), c.remote.Stores()
	}
	return d, ok
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Activity is work on a clone, or on one that is being made.
type Activity struct {
	Key, Subject, Repo string
	remote.Now
}

// Activities lists the work on all clones, those of a clone oldest first, from memory.
func (m *Manager) Activities() []Activity {
	var list []Activity
	for _, c := range m.all() {
		for _, now := range c.remote.Doing.All() {
			c.mu.Lock()
			repo := c.rec.Repo
			c.mu.Unlock()
			list = append(list, Activity{Key: c.Key, Subject: string(c.Subject), Repo: repo, Now: now})
		}
	}
	return list
}
