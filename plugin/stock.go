package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/helmdeck/repos/internal/clone"
	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/quota"
	"github.com/helmdeck/repos/internal/trash"
	"github.com/helmdeck/repos/internal/warm"
	"github.com/helmdeck/repos/internal/work"
	"github.com/helmdeck/repos/internal/workspace"
	"github.com/helmdeck/repos/janitor"
)

// stock implements janitor.Stock: the clones with their workspaces and discards, and the
// trash.
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

// Inventory waits for the start's sweep. It does no I/O except statfs.
func (s *stock) Inventory(ctx context.Context) (janitor.Inventory, error) {
	select {
	case <-s.swept:
	case <-ctx.Done():
		return janitor.Inventory{}, context.Cause(ctx)
	}
	trashed := s.trash.Stats().Size // first: an entry deleted meanwhile counts twice rather than not at all
	space, err := s.Space()
	if err != nil {
		return janitor.Inventory{}, err
	}
	inv := janitor.Inventory{Now: s.now(), Space: space, Trash: trashed, SubjectMaxSize: s.quota.Sizes()}
	infos := s.clones.Inventory()
	at := make(map[string]int, len(infos))
	for _, info := range infos {
		at[info.Key] = len(inv.Clones)
		c := cloneOf(info)
		s.addWarm(&c)
		inv.Clones = append(inv.Clones, c)
	}
	for _, w := range s.workspaces.Workspaces() {
		i, ok := at[w.Clone]
		if !ok { // its clone is lost, but the workspace needs only the layers
			i = len(inv.Clones)
			at[w.Clone] = i
			inv.Clones = append(inv.Clones, janitor.Clone{
				Key: w.Clone, Subject: w.Options["subject"], Repo: w.Options["repo"], Made: janitor.Stamp(w.MountedAt), Mounted: true,
			})
		}
		c, p := &inv.Clones[i], partOf(w)
		c.Used = max(c.Used, p.Used)
		c.Parts = append(c.Parts, p)
	}
	for i, info := range infos { // a clone that is busy without a workspace has work in progress
		if c := &inv.Clones[i]; info.Busy != "" && !info.Working && c.Held == janitor.Free && !hasWorkspace(c) {
			c.Held = janitor.Pending
		}
	}
	return inv, nil
}

func hasWorkspace(c *janitor.Clone) bool {
	for _, p := range c.Parts {
		if p.Kind == janitor.Upper || p.Kind == janitor.Discard {
			return true
		}
	}
	return false
}

// cloneOf converts a clone, without its workspaces.
func cloneOf(info clone.Info) janitor.Clone {
	c := janitor.Clone{
		Key: info.Key, Subject: info.Subject, Repo: info.Repo, Made: janitor.Stamp(info.CreatedAt), Used: janitor.Stamp(info.Used),
		Mounted: info.Mounted, Size: info.LFS.Size, LFS: info.LFS.Size, Parts: make([]janitor.Part, 0, len(info.Layers)+len(info.Caches)+1),
	}
	switch {
	case info.Attended:
		c.Held = janitor.Pending
	case info.Working:
		c.Held = janitor.Working
	}
	for _, size := range info.Stores {
		c.Size = c.Size.Add(size.Size)
	}
	// The layers below a tree must be evicted after it.
	used := make(map[string]int64)
	for _, l := range info.Layers {
		for depth, id := range l.Below {
			used[id] = max(used[id], janitor.Stamp(l.Used)+int64(depth)+1)
		}
	}
	for _, l := range info.Layers {
		p := janitor.Part{
			Kind: janitor.Tree, ID: l.ID, Used: max(used[l.ID], janitor.Stamp(l.Used)), Size: l.Size.Size, Needed: l.Need != "",
		}
		if l.Kind != "tree" {
			p.Kind = janitor.GitLayer
		}
		if l.Held {
			p.Held = janitor.Pinned
		}
		c.Parts = append(c.Parts, p)
	}
	for uid, size := range info.Caches {
		c.Parts = append(c.Parts, janitor.Part{Kind: janitor.Cache, ID: uid, Used: janitor.Stamp(info.Used), Size: size.Size})
	}
	return c
}

// addWarm adds a clone's warm layers, as one part for each head. Layers that several
// heads share are evicted with the clone.
func (s *stock) addWarm(c *janitor.Clone) {
	rest := s.warm.Size(c.Key)
	for _, h := range s.warm.Heads(c.Key) {
		p := janitor.Part{Kind: janitor.Warm, ID: h.Key, Used: janitor.Stamp(h.Used), Size: h.Size}
		if h.Held {
			p.Held = janitor.Pinned
		}
		rest = rest.Sub(h.Size)
		c.Parts = append(c.Parts, p)
	}
	c.Size, c.Shared = c.Size.Add(rest), rest
}

// partOf converts a workspace or a discard.
func partOf(w meta.Workspace) janitor.Part {
	p := janitor.Part{Kind: janitor.Upper, ID: w.ID, Volume: w.Volume, Used: janitor.Stamp(w.MountedAt), Size: w.Size.Size}
	switch {
	case w.Phase == meta.Discarded:
		p.Kind, p.Used = janitor.Discard, janitor.Stamp(w.EndedAt)
	case w.Phase == meta.Ended:
		p.Held = janitor.Busy
	case len(w.Leases) > 0:
		p.Held = janitor.Leased
	case w.Mode == "keep":
		p.Held = janitor.Kept
	default:
		p.Held = janitor.Pending
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
		err = s.clones.EvictCache(ctx, e.Clone, e.ID)
	case janitor.Warm:
		err = s.warm.Evict(ctx, e.Clone, e.ID)
	case janitor.Discard:
		err = s.workspaces.EvictDiscard(e.ID)
	default:
		err = fmt.Errorf("a %s can't be evicted", e.Kind)
	}
	var busy *work.BusyError
	var inUse *workspace.InUseError
	var gone *workspace.NoDiscardError
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

// Hurry deletes the trash without rest.
func (s *stock) Hurry(ctx context.Context, enough func() bool) error {
	return s.trash.Hurry(ctx, enough)
}
