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

// Kinds are those of the layers that are made here.
var Kinds = []meta.Kind{meta.Tree, meta.GitLayer}

const (
	// CacheMount is where the cache is bound, below the top of a workspace: in .git,
	// out of the reach of an agent's `git clean -fdx`.
	CacheMount = ".git/hdcache"
	// CacheLink is the name at the top of a workspace that shows the cache.
	CacheLink = ".hdcache"
)

// Spec says what is to be checked out.
type Spec struct {
	remote.Source
	Files    volume.Files
	UID, GID uint32
}

// Shared is what the Collections of all repositories have in common.
type Shared struct {
	// Schemes are those that a submodule's URL may have, as a user's.
	Schemes volume.Schemes
	// LookupHost returns the addresses of a submodule's or an LFS server's host; nil
	// asks the machine's name servers.
	LookupHost func(ctx context.Context, host string) ([]netip.Addr, error)

	flattening  work.Lock // held by the one that flattens a tree
	flattenAt   int       // not the constant, in tests
	flattenFrom int64     // likewise
}

// Collection is the trees and git layers of one repository. It is safe for concurrent use.
type Collection struct {
	shared *Shared
	remote *remote.Remote
	layers *layer.Set
	// submodule returns the Collection of a submodule's repository, which stays, with
	// its stores, until release is called.
	submodule func(ctx context.Context, u volume.URL) (c *Collection, release func(), err error)
	lfs       lfsStore

	mu       sync.Mutex      // guards what follows; never held over I/O
	built    map[string]Spec // by the ID of a tree: it may have to be flattened
	settling map[string]int  // commits that are prepared whatever their refs are at
}

// New returns the Collection of a repository, whose layers are in the set, below the
// directory of the Remote. submodule opens those of other repositories of the same
// holder; a submodule whose URL it is given was found to be harmless.
func New(s *Shared, r *remote.Remote, set *layer.Set, submodule func(ctx context.Context, u volume.URL) (*Collection, func(), error)) *Collection {
	return &Collection{
		shared: s, remote: r, layers: set, submodule: submodule,
		lfs: lfsStore{remote: r}, built: make(map[string]Spec), settling: make(map[string]int),
	}
}

// Hold keeps the layers of a workspace from being collected until Drop.
func (c *Collection) Hold(chain []string, gitLayer string) {
	c.layers.Hold(meta.Tree, chain...)
	c.layers.Hold(meta.GitLayer, gitLayer)
}

// HoldKnown is Hold of two layers if both are still there.
func (c *Collection) HoldKnown(tree, gitLayer meta.Layer) bool {
	if !c.layers.HoldKnown(tree) {
		return false
	}
	if !c.layers.HoldKnown(gitLayer) {
		c.layers.Drop(meta.Tree, tree.Chain...)
		return false
	}
	return true
}

// Drop ends a Hold. What nothing needs then goes in the background.
func (c *Collection) Drop(chain []string, gitLayer string) {
	c.layers.Drop(meta.Tree, chain...)
	c.layers.Drop(meta.GitLayer, gitLayer)
	c.collectSoon()
}

// Held reports whether a workspace, of whatever state, or a build stands on layers.
func (c *Collection) Held() bool { return c.layers.InUse(Kinds...) }

// Lower returns the directories of the layers of a workspace, topmost first.
func (c *Collection) Lower(chain []string, gitLayer string) []string {
	return append(c.layers.Lower(meta.GitLayer, gitLayer), c.layers.Lower(meta.Tree, chain...)...)
}

// Settle keeps the layers of a commit from being collected until done is called,
// though no ref may be at it.
func (c *Collection) Settle(commit string) (done func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settling[commit]++
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.settling[commit]--; c.settling[commit] == 0 {
			delete(c.settling, commit)
		}
	}
}

// Forget is called when the records of all stores are forgotten: no tree is flattened then.
func (c *Collection) Forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.built)
}

// Heal forgets the layers whose directories are gone, so that the next Prepare
// builds them again. It reports whether there were any.
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
	c.remote.Log.WithField("layers", len(list)).Error("layers are gone: they are built again")
	c.forgetBuilt(list)
	return true, c.layers.Remove(list)
}

// collectSoon trashes, in the background, layers that nothing needs any more:
// no workspace stands on them, and no ref that a volume has named is at their
// commit. It is for whoever has made a layer, or let go of one.
func (c *Collection) collectSoon() {
	if len(c.unneeded()) == 0 {
		return
	}
	c.remote.Used.Group.Go(func(ctx context.Context) {
		_, err := work.ShareOn(ctx, c.remote.Used, "collect", func(ctx context.Context) (struct{}, error) {
			return struct{}{}, c.collect(ctx)
		})
		if err != nil && ctx.Err() == nil {
			c.remote.Log.WithError(err).Warn("collect layers")
		}
	})
}

// unneeded lists the layers that nothing needs.
func (c *Collection) unneeded() []meta.Layer {
	if !c.remote.Fetched() {
		return nil
	}
	list := c.layers.List(Kinds...)
	needs := c.Needs(list)
	return slices.DeleteFunc(list, func(l meta.Layer) bool { return needs[l.ID] != "" })
}

// Needs says, by ID, what needs a layer: what holds it, a ref that a volume has
// named and that is at its commit, or a tree of that kind that stands on it. The list has
// all layers, and is older than what it looks at: a layer is made for a ref that is known.
func (c *Collection) Needs(list []meta.Layer) map[string]string {
	stores := c.remote.Stores()
	refs := c.refs(stores)
	needs := make(map[string]string)
	for _, l := range list {
		need := refs[l.Commit]
		if l.Kind == meta.GitLayer && l.Snapshot != stores[l.Store].Snapshot {
			need = ""
		}
		if len(l.Chain) > 1 {
			if _, flat := c.flat(l.Shape, l.Commit); flat {
				need = "" // mounts take that one
			}
		}
		if c.layers.Held(l.Kind, l.ID) {
			need = heldBy
		}
		if need == "" {
			continue
		}
		for i, id := range l.Stack() {
			own := i == 0 // which says more than what another layer's need is
			if old := needs[id]; old == "" || old != heldBy && (own || need == heldBy) {
				needs[id] = need
			}
		}
	}
	return needs
}

// refs names, by commit, a ref that a volume has named and that is there, or the
// Prepare that settles for the commit.
func (c *Collection) refs(stores map[string]meta.Store) map[string]string {
	refs := make(map[string]string)
	for _, store := range stores {
		for name, r := range store.Refs {
			refs[r.Commit] = "ref " + name
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for commit := range c.settling {
		refs[commit] = heldBy
	}
	return refs
}

const heldBy = "a workspace, a discard or a build"

func (c *Collection) collect(ctx context.Context) error {
	unlock, err := c.layers.Lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	list := c.layers.Withdraw(c.unneeded())
	c.forgetBuilt(list)
	return c.layers.Remove(list)
}
