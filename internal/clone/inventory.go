package clone

import (
	"slices"
	"time"

	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/tree"
)

// Info is what a janitor needs to know of a clone. It shares nothing with it.
type Info struct {
	Key, Subject, Repo string
	CreatedAt, Used    time.Time
	// Mounted is set once a Mount was served from it.
	Mounted bool
	// Busy says why the clone can't be evicted now, in words; empty when it can.
	Busy string
	// Working is set while a Create, a Mount or work in the background uses it, and
	// Attended if somebody waits for that.
	Working, Attended bool
	// Stores are the sizes of its bare repositories, by their history.
	Stores map[string]meta.Measured
	// LFS is the size of its LFS objects.
	LFS meta.Measured
	// Caches are the sizes of its caches, by uid.
	Caches map[string]meta.Measured
	Layers []LayerInfo
}

// LayerInfo is what a janitor needs to know of a tree or a git layer.
type LayerInfo struct {
	ID              string
	Kind            string // "tree" or "git layer"
	CreatedAt, Used time.Time
	Size            meta.Measured
	// Held is set while a workspace, of whatever state, or a build stands on it:
	// it can't be evicted.
	Held bool
	// Need says what needs it, in words: what holds it, or a ref that is at its
	// commit, which only costs the next Mount a build if it is evicted. Empty when
	// nothing does.
	Need string
	// Below are the trees that it stands on. One that another tree stands on can't
	// be evicted without that.
	Below []string
}

// Inventory returns what there is of all clones, from memory.
func (m *Manager) Inventory() []Info {
	var list []Info
	for _, c := range m.all() {
		if info, ok := c.Info(); ok {
			list = append(list, info)
		}
	}
	return list
}

// Info describes one clone, from memory. It is not ok when there is nothing of it, and
// nothing is being made.
func (c *Clone) Info() (info Info, ok bool) {
	rec, made := c.record()
	used := c.used.Usage()
	if !made {
		if !used.Tasks {
			return Info{}, false
		}
		rec.CreatedAt = c.m.Now() // being cloned
	}
	info = Info{
		Key: c.Key, Subject: rec.Subject, Repo: rec.Repo, CreatedAt: rec.CreatedAt, Used: latest(rec.Used, rec.CreatedAt),
		Mounted: !rec.FirstMount.IsZero(), Busy: c.busy(used), Working: used.Used, Attended: used.Attended, LFS: rec.LFS,
		Stores: make(map[string]meta.Measured, len(rec.Stores)), Caches: rec.Caches,
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
		info.Layers = append(info.Layers, LayerInfo{
			ID: l.ID, Kind: string(l.Kind), CreatedAt: l.CreatedAt, Used: latest(l.Used, l.CreatedAt), Size: l.Size,
			Held: c.layers.Held(l.Kind, l.ID), Need: needs[l.ID], Below: slices.Clone(l.Stack()[1:]),
		})
	}
	return info, true
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
