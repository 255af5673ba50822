package tree

import (
	"context"
	"net/netip"
	"slices"
	"sync"

	"github.com/helmdeck/repos/internal/layer"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/remote"
	"github.com/helmdeck/repos/internal/volume"
	"github.com/helmdeck/repos/internal/work"
)

// Kinds are the kinds of layers that this package builds.
var Kinds = []meta.Kind{meta.Tree, meta.GitLayer}

const (
	// CacheMount is where the cache is mounted, below the top of a workspace: in .git,
	// which `git clean -fdx` does not touch.
	CacheMount = ".git/hdcache"
	// CacheLink is the name of the link to the cache at the top of a workspace.
	CacheLink = ".hdcache"
)

// Spec says what to check out, and who owns the files.
type Spec struct {
	remote.Source
	Files    volume.Files
	UID, GID uint32
}

// Shared has what the Collections of all repositories share.
type Shared struct {
	// Schemes are the schemes that the URL of a submodule may have.
	Schemes volume.Schemes
	// LookupHost returns the addresses of the host of a submodule or an LFS server. Nil
	// means that the machine's name servers are asked.
	LookupHost func(ctx context.Context, host string) ([]netip.Addr, error)

	flattening  work.Lock // flatten holds it
	flattenAt   int       // replaces the constant in tests, if it is set
	flattenFrom int64     // likewise
}

// Collection has the trees and git layers of one repository. It is safe for concurrent use.
type Collection struct {
	shared *Shared
	remote *remote.Remote
	layers *layer.Set
	// submodule returns the Collection of a submodule's repository. The Collection and its
	// stores stay until release is called.
	submodule   func(ctx context.Context, u volume.URL) (c *Collection, release func(), err error)
	fetchingLFS work.Lock // so that each LFS object is fetched once

	mu          sync.Mutex      // guards the fields below; never held over I/O
	candidates  map[string]Spec // trees that may have to be flattened, by ID
	heldCommits map[string]int  // commits of HoldCommit, and how often each is held
}

// New returns the Collection of a repository. Its layers are in the set, below the
// directory of the Remote. submodule opens the Collections of other repositories of the
// same holder; it gets only URLs that were checked.
func New(s *Shared, r *remote.Remote, set *layer.Set, submodule func(ctx context.Context, u volume.URL) (*Collection, func(), error)) *Collection {
	return &Collection{
		shared: s, remote: r, layers: set, submodule: submodule,
		candidates: make(map[string]Spec), heldCommits: make(map[string]int),
	}
}

// Hold keeps the layers of a workspace from being removed until Drop is called.
func (c *Collection) Hold(chain []string, gitLayer string) {
	c.layers.Hold(meta.Tree, chain...)
	c.layers.Hold(meta.GitLayer, gitLayer)
}

// HoldKnown is Hold if both layers still exist. It reports whether they do.
func (c *Collection) HoldKnown(tree, gitLayer meta.Layer) bool {
	ok := c.layers.HoldKnown(tree)
	if ok && !c.layers.HoldKnown(gitLayer) {
		c.layers.Drop(meta.Tree, tree.Chain...)
		return false
	}
	return ok
}

// Drop ends a Hold. Layers that become garbage are removed in the background.
func (c *Collection) Drop(chain []string, gitLayer string) {
	c.layers.Drop(meta.Tree, chain...)
	c.layers.Drop(meta.GitLayer, gitLayer)
	c.collectSoon()
}

// Held reports whether a workspace in any phase, or a build, holds a layer.
func (c *Collection) Held() bool { return c.layers.InUse(Kinds...) }

// Lower returns the directories of a workspace's layers, topmost first.
func (c *Collection) Lower(chain []string, gitLayer string) []string {
	return append(c.layers.Lower(meta.GitLayer, gitLayer), c.layers.Lower(meta.Tree, chain...)...)
}

// HoldCommit keeps the layers of a commit, and those below them, from being removed until
// drop is called, even if no ref is at the commit. A Mount holds its commit while it builds
// layers, because it can hold a layer itself only when it has all of them. Garbage that drop
// leaves is collected when the next layer is published or dropped.
func (c *Collection) HoldCommit(commit string) (drop func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.heldCommits[commit]++
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.heldCommits[commit]--; c.heldCommits[commit] == 0 {
			delete(c.heldCommits, commit)
		}
	}
}

// Evict removes layers by ID, except those that somebody holds, those of commits that are
// held, and those below them. It returns how many layers it removed and how many stayed;
// unknown IDs do not count. The caller holds the lock.
func (c *Collection) Evict(ids []string) (gone, stayed int, err error) {
	held := make(map[string]bool)
	c.mu.Lock()
	for _, l := range c.layers.List(Kinds...) {
		held[l.ID] = c.heldCommits[l.Commit] > 0
	}
	c.mu.Unlock()
	free := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return held[id] })
	gone, stayed, err = c.layers.Evict(free, Kinds...)
	return gone, stayed + len(ids) - len(free), err
}

// CancelFlattening makes FlattenSoon ignore all trees that were built before. Call it when
// the records of all stores are deleted.
func (c *Collection) CancelFlattening() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.candidates)
}

// Heal removes the records of layers without a directory, so that the next call of Tree
// or GitLayer builds them again. It reports whether there were any.
func (c *Collection) Heal(ctx context.Context) (healed bool, err error) {
	unlock, err := c.layers.Lock(ctx)
	if err != nil {
		return false, err
	}
	defer unlock()
	list, err := c.layers.Void(Kinds...)
	if err != nil || len(list) == 0 {
		return false, err
	}
	c.remote.Log.WithContext(ctx).WithField("layers", len(list)).Error("layers are gone: they are built again")
	c.dropCandidates(list)
	return true, c.layers.Remove(list)
}

// collectSoon starts a garbage collection in the background, if there is any garbage. Call
// it after a layer was published or dropped.
func (c *Collection) collectSoon() {
	if !c.hasGarbage() {
		return
	}
	c.remote.Used.Group.Go(func(ctx context.Context) {
		for range 2 { // the first collection may be one that began before
			_, err := work.ShareOn(ctx, c.remote.Used, "collect", func(ctx context.Context) (struct{}, error) {
				return struct{}{}, c.collect(ctx)
			})
			if err != nil && ctx.Err() == nil {
				c.remote.Log.WithContext(ctx).WithError(err).Warn("collect layers")
			}
			if err != nil || !c.hasGarbage() {
				return
			}
		}
	})
}

// hasGarbage reports whether there is something to collect.
func (c *Collection) hasGarbage() bool { return len(c.unneeded()) > 0 || c.coldUnneeded() }

// unneeded returns the layers that are garbage: see Needs.
func (c *Collection) unneeded() []meta.Layer {
	if !c.remote.Fetched() {
		return nil
	}
	list := c.layers.List(Kinds...)
	needs := c.Needs(list)
	return slices.DeleteFunc(list, func(l meta.Layer) bool { return needs[l.ID] != "" })
}

// Needs returns, by ID, why the layers are not garbage: somebody holds the layer, a ref
// that a volume has named is at its commit, or a layer of which this is true stands on it.
// The list must have all layers, and must be older than the call: a ref is known before
// its layers are built.
func (c *Collection) Needs(list []meta.Layer) map[string]string {
	stores := c.remote.Stores()
	refs, cold := c.refs(stores), volume.ColdHistory.Name()
	if _, full := stores[volume.History{}.Name()]; full {
		delete(stores, cold) // mounts use the full one
	}
	needs := make(map[string]string)
	for _, l := range list {
		need := refs[l.Commit]
		// That of the cold store does not depend on the store's other refs.
		store, there := stores[l.Store]
		if l.Kind == meta.GitLayer && (!there || l.Snapshot != store.Snapshot && l.Store != cold) {
			need = ""
		}
		if len(l.Chain) > 1 {
			if _, flat := c.flat(l.Shape, l.Commit); flat {
				need = "" // mounts use the flat tree
			}
		}
		if c.layers.Held(l.Kind, l.ID) {
			need = heldBy
		}
		if need == "" {
			continue
		}
		for i, id := range l.Stack() {
			own := i == 0 // says more than the need of a layer above
			if old := needs[id]; old == "" || old != heldBy && (own || need == heldBy) {
				needs[id] = need
			}
		}
	}
	return needs
}

// refs returns, by commit, the name of a ref that a volume has named and that is at
// the commit, or heldBy for the commits of HoldCommit.
func (c *Collection) refs(stores map[string]meta.Store) map[string]string {
	refs := make(map[string]string)
	for _, store := range stores {
		for name, r := range store.Refs {
			refs[r.Commit] = "ref " + name
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for commit := range c.heldCommits {
		refs[commit] = heldBy
	}
	return refs
}

// heldBy is the need of a layer that somebody holds.
const heldBy = "a workspace, a discard or a build"

// collect removes the layers that are garbage, and then the cold store if it is.
func (c *Collection) collect(ctx context.Context) error {
	unlock, err := c.layers.Lock(ctx)
	if err != nil {
		return err
	}
	list := c.layers.Withdraw(c.unneeded())
	c.dropCandidates(list)
	err = c.layers.Remove(list)
	unlock()
	if err != nil || !c.coldUnneeded() {
		return err
	}
	return c.remote.EndCold(ctx)
}

// coldUnneeded reports whether the cold store is garbage: there is a full one, and no git
// layer links packs of the cold one, whose size is counted as long as the store exists.
func (c *Collection) coldUnneeded() bool {
	return c.remote.ColdEnds() && !slices.ContainsFunc(c.layers.List(meta.GitLayer), func(l meta.Layer) bool {
		return l.Store == volume.ColdHistory.Name()
	})
}
