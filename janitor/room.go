package janitor

import (
	"context"
	"fmt"
	"slices"

	"github.com/helmdeck/repos/internal/disk"
)

// RoomError says that there is no room, and why.
type RoomError struct {
	Missing disk.Size // so much more has to be free
	Holders []Holder  // who has what can't be freed, largest first
}

func (e *RoomError) Error() string {
	return fmt.Sprintf("the disk is full: %s more has to be free, and nothing more can be evicted (%s): end containers, remove volumes with mode=keep, or give the disk more room",
		e.amount(), Held(e.Holders))
}

func (e *RoomError) amount() string {
	if e.Missing.Bytes <= 0 {
		return fmt.Sprintf("%d inodes", e.Missing.Inodes)
	}
	return Bytes(e.Missing.Bytes)
}

// leastRoom is the share of the filesystem that is made free for somebody who does
// not know how much is needed, where MinFree says nothing.
const leastRoom = 0.01

// MakeRoom frees space for somebody who got ENOSPC, and returns when it is free: at
// least need, and MinFree of the filesystem if that can be had. The error is a
// *RoomError where there is less than need, or, if need is zero, where nothing could
// be freed at all; else that of ctx or the stock.
func (j *Janitor) MakeRoom(ctx context.Context, need disk.Size) error {
	unlock, err := j.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	before, err := j.Stock.Space()
	if err != nil {
		return err
	}
	lim := j.Limits
	lim.Room = j.want(before, need)
	if !ofRoom(before, before.Free, lim.Room).over() {
		return nil // somebody else has made it
	}
	r, _, err := j.sweep(ctx, lim)
	if err != nil {
		return err
	}
	enough := func() bool {
		s, err := j.Stock.Space()
		return err == nil && !ofRoom(s, s.Free, lim.Room).over()
	}
	if err := j.Stock.Hurry(ctx, enough); err != nil {
		return err
	}
	after, err := j.Stock.Space()
	if err != nil {
		return err
	}
	least := ofRoom(after, after.Free, need)
	if need == (disk.Size{}) && len(r.Evicted) == 0 && after.Free.Bytes <= before.Free.Bytes && after.Free.Inodes <= before.Free.Inodes {
		least = ofRoom(after, after.Free, lim.Room)
	}
	if !least.over() {
		return nil
	}
	return &RoomError{least.missing(), r.Left.Holders}
}

// want is how much is to be free in all.
func (j *Janitor) want(s disk.Space, need disk.Size) disk.Size {
	share := j.Limits.MinFree
	if share <= 0 {
		share = leastRoom
	}
	return disk.Size{
		Bytes:  max(need.Bytes, part(s.Total.Bytes, share)),
		Inodes: max(need.Inodes, part(s.Total.Inodes, share)),
	}
}

// EvictClone evicts one clone because somebody says so: its next mount starts
// fresh. It is refused with the reason while something of it is held; its discards
// are kept, so they are a reason too. A clone that there is not is an error.
func (j *Janitor) EvictClone(ctx context.Context, key string) error {
	unlock, err := j.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	inv, err := j.Stock.Inventory(ctx)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(inv.Clones, func(c Clone) bool { return c.Key == key })
	if i < 0 {
		return fmt.Errorf("%w %q", ErrNoClone, key)
	}
	p := newPlanner(Inventory{Now: inv.Now, Clones: inv.Clones[i : i+1]}, Limits{})
	c := &p.clones[0]
	switch {
	case c.hold != Free:
		return fmt.Errorf("evict clone %q: %w: %s", key, ErrHeld, c.hold)
	case c.discards > 0:
		return fmt.Errorf("evict clone %q: %w: %d discards stand on it; restore or remove them first", key, ErrHeld, c.discards)
	}
	p.evictClone(0, p.because(OnDemand, "an operator said so"))
	e := p.evictions()[0]
	if err := j.Stock.Evict(ctx, e); err != nil {
		return fmt.Errorf("evict clone %q: %w", key, err)
	}
	j.evicted(e)
	return nil
}

// Clones lists what there is, largest first.
func (j *Janitor) Clones(ctx context.Context) ([]CloneInfo, error) {
	inv, err := j.Stock.Inventory(ctx)
	if err != nil {
		return nil, err
	}
	return describe(inv), nil
}
