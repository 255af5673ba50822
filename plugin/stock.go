package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/helmdeck/repos/internal/admin/quota"
	"github.com/helmdeck/repos/internal/clone"
	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/disk/trash"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/work"
	"github.com/helmdeck/repos/internal/workspace"
	"github.com/helmdeck/repos/internal/workspace/warm"
	"github.com/helmdeck/repos/janitor"
)

// stock implements janitor.Stock: the clones with their workspaces and checkpoints, and the
// trash. It says how they are used; the janitor decides what that means.
type stock struct {
	data  string
	trash *trash.Trash
	now   func() time.Time
	quota *quota.Quota

	clones     *clone.Manager
	warm       *warm.Manager
	workspaces *workspace.Manager
	// swept is closed when the start's sweep of workspaces and clones has ended: before,
	// leftovers of an earlier run are unknown or look busy.
	swept <-chan struct{}
}

// Inventory waits for the start's sweep. It does no I/O except statfs and stat. What it takes for a clone that
// is not chosen is a look at its key.
func (s *stock) Inventory(ctx context.Context, of janitor.Choice) (janitor.Inventory, error) {
	select {
	case <-s.swept:
	case <-ctx.Done():
		return janitor.Inventory{}, context.Cause(ctx)
	}
	trashed := s.trash.Stats() // first: an entry deleted meanwhile counts twice rather than not at all
	space, err := s.Space()
	if err != nil {
		return janitor.Inventory{}, err
	}
	inv := janitor.Inventory{Now: s.now(), Space: space, Trash: trashed.Size, Own: ownFiles(s.data).Add(trashed.Later).Add(trashed.Stuck), SubjectMaxSize: s.quota.Sizes()}
	for {
		keys := of.Of(s.keys)
		inv.Clones = s.describe(keys)
		// One that is gone meanwhile must not end a limited list.
		if of.Limit == 0 || len(inv.Clones) == len(keys) || ctx.Err() != nil {
			return inv, context.Cause(ctx)
		}
	}
}

// keys calls yield with the keys of all clones, also of those that are lost but have workspaces.
func (s *stock) keys(yield func(key string) bool) {
	for _, key := range s.clones.Keys() {
		if !yield(key) {
			return
		}
	}
	more := true
	s.workspaces.Each(func(w *meta.Workspace) { more = more && yield(w.Clone) })
}

// describe describes the clones of keys, as far as they are there.
func (s *stock) describe(keys []string) (clones []janitor.Clone) {
	const lost = -1
	at := make(map[string]int, len(keys))
	for _, key := range keys {
		at[key] = lost
		c := s.clones.Lookup(key)
		if c == nil {
			continue
		}
		if info, ok := c.Info(); ok {
			at[key] = len(clones)
			c := cloneOf(info)
			s.addWarm(&c)
			clones = append(clones, c)
		}
	}
	workspaces := s.workspaces.WorkspacesOf(func(key string) bool { _, ok := at[key]; return ok })
	below := meta.Below(func(yield func(meta.Workspace) bool) { // by what does not go before them
		for _, w := range workspaces {
			if !evictable(w) && !yield(w) {
				return
			}
		}
	})
	for _, w := range workspaces {
		i := at[w.Clone]
		if i == lost { // the workspace needs only the layers
			i = len(clones)
			at[w.Clone] = i
			clones = append(clones, janitor.Clone{
				Key: w.Clone, Subject: w.Options["subject"], Repo: w.Options["repo"], Made: janitor.Stamp(w.MountedAt), Mounted: true,
			})
		}
		c, p := &clones[i], partOf(w, below[w.ID])
		c.Used = max(c.Used, p.Used)
		c.Parts = append(c.Parts, p)
	}
	return clones
}

// ownFiles returns what the files take that the plugin needs for itself. One that is not there
// takes nothing.
func ownFiles(data string) (sum disk.Size) {
	for _, name := range []string{databaseFile, reserveFile} {
		size, _ := disk.Measure(context.Background(), filepath.Join(data, name)) // one stat
		sum = sum.Add(size)
	}
	return sum
}

// cloneOf converts a clone, without its workspaces.
func cloneOf(info clone.Info) janitor.Clone {
	c := janitor.Clone{
		Key: info.Key, Subject: info.Subject, Repo: info.Repo, Made: janitor.Stamp(info.CreatedAt), Used: janitor.Stamp(info.Used),
		Mounted: info.Mounted, Size: info.LFS.Size, LFS: info.LFS.Size, Parts: make([]janitor.Part, 0, len(info.Layers)+1),
		Use: janitor.Use{Attended: info.Attended, Working: info.Working, Busy: info.Busy != ""},
	}
	for _, size := range info.Stores {
		c.Size = c.Size.Add(size.Size)
	}
	for _, l := range info.Layers {
		p := janitor.Part{
			Kind: janitor.Tree, ID: l.ID, Used: janitor.Stamp(l.Used), Size: l.Size.Size, Needed: l.Need != "", Below: l.Below,
			Use: janitor.Use{Below: l.Held},
		}
		if l.Kind != "tree" {
			p.Kind = janitor.GitLayer
		}
		c.Parts = append(c.Parts, p)
	}
	return c
}

// addWarm adds a clone's warm layers, as one part for each head, and one for each layer of a cache. Layers that several
// heads share, and the bases of caches, are evicted with the clone.
func (s *stock) addWarm(c *janitor.Clone) {
	rest := s.warm.Size(c.Key)
	for _, l := range s.warm.CacheLayers(c.Key) {
		c.Parts = append(c.Parts, janitor.Part{
			Kind: janitor.Cache, ID: l.ID, Used: janitor.Stamp(l.Used), Depth: l.Depth, Size: l.Size, Use: janitor.Use{Below: l.Held},
		})
		rest = rest.Sub(l.Size)
	}
	for _, h := range s.warm.Heads(c.Key) {
		c.Parts = append(c.Parts, janitor.Part{
			Kind: janitor.Warm, ID: h.Key, Used: janitor.Stamp(h.Used), Size: h.Size, Use: janitor.Use{Below: h.Held},
		})
		rest = rest.Sub(h.Size)
	}
	c.Size, c.Common = c.Size.Add(rest), rest
}

// evictable reports whether a workspace is a checkpoint that the janitor may evict, before those that it stands on.
func evictable(w meta.Workspace) bool { return w.Phase == meta.Checkpoint && w.Name == "" }

// partOf converts a workspace or a checkpoint. below says that something stands on it that does not go before it.
func partOf(w meta.Workspace, below bool) janitor.Part {
	p := janitor.Part{
		Kind: janitor.Upper, ID: w.ID, Volume: w.Volume, Used: janitor.Stamp(w.MountedAt), Size: w.Size.Size, Limit: w.Limit,
		Use: janitor.Use{Ended: w.Phase == meta.Ended, Leased: len(w.Leases) > 0, Kept: w.Mode == "keep"},
	}
	p.Unmeasured = w.Size.At.IsZero() && w.Phase != meta.Checkpoint
	if w.Phase == meta.Checkpoint {
		p.Kind, p.Used, p.Use, p.Named = janitor.Checkpoint, janitor.Stamp(w.EndedAt), janitor.Use{Below: below}, w.Name != ""
		p.Below, p.Merged = w.From, w.Merged
	}
	return p
}

// stopOf returns which work an eviction cancels.
func stopOf(e janitor.Eviction) work.Stop {
	switch {
	case e.Reason == janitor.OnDemand:
		return work.StopAll
	case e.Stops():
		return work.StopUnattended
	}
	return work.StopNothing
}

// Evict evicts one clone or part.
func (s *stock) Evict(ctx context.Context, e janitor.Eviction) error {
	var err error
	switch e.Kind {
	case janitor.WholeClone:
		err = s.clones.EvictClone(ctx, e.Clone, stopOf(e), s.warm.Evicting)
	case janitor.Tree, janitor.GitLayer:
		err = s.clones.EvictLayers(ctx, e.Clone, []string{e.ID})
	case janitor.Cache:
		err = s.warm.EvictCacheLayer(ctx, e.Clone, e.ID)
	case janitor.Warm:
		err = s.warm.Evict(ctx, e.Clone, e.ID)
	case janitor.Checkpoint:
		err = s.workspaces.EvictCheckpoint(e.ID)
	default:
		err = fmt.Errorf("a %s can't be evicted", e.Kind)
	}
	var busy *work.BusyError
	var inUse *workspace.InUseError
	var gone *workspace.NoCheckpointError
	switch {
	case errors.As(err, &gone):
		return nil
	case errors.As(err, &busy), errors.As(err, &inUse):
		return fmt.Errorf("%w: %w", janitor.ErrHeld, err)
	}
	return err
}

// Space returns the space of the data directory's filesystem.
func (s *stock) Space() (disk.Space, error) { return disk.SpaceOf(s.data) }

// Trash returns the size of what goes already.
func (s *stock) Trash() disk.Size { return s.trash.Stats().Size }

// Hurry deletes the trash without rest.
func (s *stock) Hurry(ctx context.Context, enough func() bool) error {
	return s.trash.Hurry(ctx, enough)
}
