package tree

import (
	"context"
	"net/netip"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/git/gitindex"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/repo/layer"
	"github.com/helmdeck/repos/internal/repo/remote"
	"github.com/helmdeck/repos/internal/volume"
	"github.com/helmdeck/repos/internal/work"
)

// Kinds are the kinds of layers that this package builds.
var Kinds = []meta.Kind{meta.Tree, meta.GitLayer}

// Spec says what to check out, and who owns the files.
type Spec struct {
	remote.Source
	Files    volume.Files
	UID, GID uint32
	// CacheLink is set if the workspace may have a link to its cache in the work tree, which git then ignores.
	CacheLink bool
}

// Common has what the Collections of all repositories share.
type Common struct {
	// Schemes are the schemes that the URL of a submodule may have.
	Schemes volume.Schemes
	// SubmodulesAsWritten turns off that ssh and git URLs of submodules at a volume's host are
	// fetched over the volume's transport.
	SubmodulesAsWritten bool
	// LookupHost returns the addresses of the host of a submodule or an LFS server. Nil
	// means that the machine's name servers are asked.
	LookupHost func(ctx context.Context, host string) ([]netip.Addr, error)

	flattening  work.Lock // flatten holds it
	flattenAt   int       // replaces the constant in tests, if it is set
	flattenFrom int64     // likewise
}

// Repository is what a Collection needs of its repository. *remote.Remote implements it.
type Repository interface {
	// Snapshot, BringBlobs and NoCommit bring what a commit has, or say why it can't be had.
	Snapshot(ctx context.Context, s remote.Source, use func(*remote.Snapshot) error) error
	BringBlobs(ctx context.Context, s remote.Source, commit string, cone gitindex.Cone) error
	NoCommit(ctx context.Context, s remote.Source, commit string) error
	// Auth returns the credential for a URL of the repository, such as that of its LFS server.
	Auth(ctx context.Context, s remote.Source, url string) (*git.Auth, error)
	StoreDir(name string) string

	// Fetched, Stores and ColdEnds say from memory which layers may still be needed, and EndCold removes the store
	// that is not.
	Fetched() bool
	Stores() map[string]meta.Store
	ColdEnds() bool
	EndCold(ctx context.Context) error
}

// Config configures a Collection. Its functions belong to the clone, and are called without a mutex held.
type Config struct {
	Repo   Repository
	Dir    string // of the repository, which has the layers
	Layers *layer.Set
	Used   *work.Resource // builds are its tasks
	Git    *git.Git
	Log    remote.Log
	Now    func() time.Time
	Doing  *remote.Activities
	// WithRoom and Measure are those of remote.Config.
	WithRoom func(ctx context.Context, need disk.Size, f func() error) error
	Measure  func(stores ...string)
	// Submodule returns the Collection of another repository of the same subject, of which it gets only URLs that were
	// checked. The Collection and its stores stay until release is called.
	Submodule func(ctx context.Context, u volume.URL) (c *Collection, release func(), err error)
}

// Collection has the trees and git layers of one repository. It is safe for concurrent use.
type Collection struct {
	common      *Common
	repo        Repository
	dir         string
	layers      *layer.Set
	used        *work.Resource
	git         *git.Git
	log         remote.Log
	now         func() time.Time
	doing       *remote.Activities
	withRoom    func(ctx context.Context, need disk.Size, f func() error) error
	measure     func(stores ...string)
	submodule   func(ctx context.Context, u volume.URL) (c *Collection, release func(), err error)
	fetchingLFS work.Lock // so that each LFS object is fetched once

	mu          sync.Mutex           // guards the fields below, nil until they are needed; never held over I/O
	candidates  map[string]Spec      // trees that may have to be flattened, by ID
	heldCommits map[string]int       // commits of HoldCommit, and how often each is held
	tried       map[string]time.Time // when the missing submodules of a tree were last tried, by ID
}

// New returns the Collection of a repository.
func New(s *Common, c Config) *Collection {
	return &Collection{
		common: s, repo: c.Repo, dir: c.Dir, layers: c.Layers, used: c.Used, git: c.Git, log: c.Log,
		now: c.Now, doing: c.Doing, withRoom: c.WithRoom, measure: c.Measure, submodule: c.Submodule,
	}
}

// Hold keeps the layers of a workspace from being removed until Drop is called.
func (c *Collection) Hold(chain []string, gitLayer string) {
	c.layers.Hold(meta.Tree, chain...)
	c.layers.Hold(meta.GitLayer, gitLayer)
}

// Replaced reports whether the tree of a chain has been built again on other layers since. Then the
// directories of the chain do not fit together. A tree that is held is built again only if its layers
// turn out to be copies without extended attributes.
func (c *Collection) Replaced(chain []string) bool {
	l, known := c.layers.Get(meta.Tree, chain[0])
	return known && !slices.Equal(l.Stack(), chain)
}

// holdKnown is Hold if both layers still exist. It reports whether they do.
func (c *Collection) holdKnown(tree, gitLayer meta.Layer) bool {
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

// Lower returns the directories of a workspace's layers, topmost first. OwnedPacks may go on top of them.
func (c *Collection) Lower(chain []string, gitLayer string) []string {
	git := filepath.Join(c.layers.Lower(meta.GitLayer, gitLayer)[0], gitPart)
	return append([]string{git}, c.layers.Lower(meta.Tree, chain...)...)
}

// HoldCommit keeps the layers of a commit, and those below them, from being removed until
// drop is called, even if no ref is at the commit. A Mount holds its commit while it builds
// layers, because it can hold a layer itself only when it has all of them. Garbage that drop
// leaves is collected when the next layer is published or dropped.
func (c *Collection) HoldCommit(commit string) (drop func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.heldCommits == nil {
		c.heldCommits = make(map[string]int)
	}
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

// Heal removes the records of layers without a directory, so that the next Build makes
// them again. It reports whether there were any.
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
	c.log.WithContext(ctx).WithField("layers", len(list)).Error("layers are gone: they are built again")
	c.dropCandidates(list)
	return true, c.layers.Remove(list)
}

// collectSoon starts a garbage collection in the background, if there is any garbage. Call
// it after a layer was published or dropped.
func (c *Collection) collectSoon() {
	if !c.hasGarbage() {
		return
	}
	c.used.Group.Go(func(ctx context.Context) {
		for range 2 { // the first collection may be one that began before
			_, err := work.ShareOn(ctx, c.used, "collect", func(ctx context.Context) (struct{}, error) {
				return struct{}{}, c.collect(ctx)
			})
			if err != nil && ctx.Err() == nil {
				c.log.WithContext(ctx).WithError(err).Warn("collect layers")
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
	if !c.repo.Fetched() {
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
	stores := c.repo.Stores()
	refs, cold := c.refs(stores), volume.ColdHistory.Name()
	if _, full := stores[volume.History{}.Name()]; full {
		delete(stores, cold) // mounts use the full one
	}
	partial := newestPartial(list)
	needs := make(map[string]string)
	for _, l := range list {
		need := refs[l.Commit]
		if isPartial(l) {
			_, complete := c.layers.Get(meta.Tree, c.timely(treeID(l.Shape, l.Commit)))
			if complete || partial[l.Shape+l.Commit].ID != l.ID {
				need = "" // mounts use the other tree
			}
		}
		// That of the cold store does not depend on the store's other refs. That of a held commit may be of a
		// Snapshot from before the last fetch.
		store, there := stores[l.Store]
		if l.Kind == meta.GitLayer && need != heldBy && (!there || l.Snapshot != store.Snapshot && l.Store != cold) {
			need = ""
		}
		if l.Kind == meta.Tree && !isPartial(l) && c.hasOther(l) {
			need = ""
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
const heldBy = "a workspace, a checkpoint or a build"

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
	return c.repo.EndCold(ctx)
}

// coldUnneeded reports whether the cold store is garbage: there is a full one, and no git
// layer links packs of the cold one, whose size is counted as long as the store exists.
func (c *Collection) coldUnneeded() bool {
	return c.repo.ColdEnds() && !slices.ContainsFunc(c.layers.List(meta.GitLayer), func(l meta.Layer) bool {
		return l.Store == volume.ColdHistory.Name()
	})
}
