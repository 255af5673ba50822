package janitor

import (
	"context"
	"fmt"
	"slices"

	"github.com/helmdeck/repos/internal/disk"
)

// RoomError says that there is no room, and why. What Error says is for a subject:
// it names nobody else, nor what they have.
type RoomError struct {
	Subject string
	Free    disk.Size
	Missing disk.Size // so much more should be free
	Holders []Holder  // who has what can't be freed, largest first
}

func (e *RoomError) Error() string {
	var own []Holder
	var others int64
	for _, h := range e.Holders {
		if h.Subject == e.Subject {
			own = append(own, h)
		} else {
			others += h.Size.Bytes
		}
	}
	const whose = "of others: the plugin's log says whose"
	switch {
	case len(own) == len(e.Holders):
		return e.text(Held(own))
	case len(own) == 0:
		return e.text(fmt.Sprintf("held by %s %s", Bytes(others), whose))
	}
	return e.text(fmt.Sprintf("%s, and %s %s", Held(own), Bytes(others), whose))
}

// Full is Error for an operator: it names all who hold the most.
func (e *RoomError) Full() string { return e.text(Held(e.Holders)) }

func (e *RoomError) text(held string) string {
	free, missing := Bytes(e.Free.Bytes), Bytes(e.Missing.Bytes)
	if e.Missing.Bytes <= 0 {
		free, missing = fmt.Sprint(e.Free.Inodes, " inodes"), fmt.Sprint(e.Missing.Inodes, " inodes")
	}
	return fmt.Sprintf("the disk is full: %s are free, %s are missing, and nothing more can be evicted (%s): end containers, remove volumes with mode=keep, or give the disk more room",
		free, missing, held)
}

// leastRoom is the share of the filesystem that is made free for somebody who does
// not know how much is needed, where MinFree says nothing.
const leastRoom = 0.01

// MakeRoom frees space for a subject that got ENOSPC, and returns when it is free: at
// least need. Where need is zero, for nobody knows it, it is guessed; unless the disk
// can be seen to be full, no discards of other subjects go for a guess, and no clones
// that a mount is about to need. The error is a *RoomError where there is less and nothing could be evicted; else that of
// ctx or the stock.
func (j *Janitor) MakeRoom(ctx context.Context, subject string, need disk.Size) error {
	asked := j.made.Load()
	unlock, err := j.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	known := need != (disk.Size{})
	if !known && j.made.Load() != asked {
		return nil // for others, while this waited for its turn
	}
	enough := func() bool {
		s, err := j.Stock.Space()
		return err == nil && known && !ofRoom(s, s.Free, need).over()
	}
	if err := j.hurry(ctx, enough); err != nil {
		return err
	}
	space, err := j.Stock.Space()
	if err != nil {
		return err
	}
	lim := j.Limits
	lim.lateDone = true
	if !known {
		least := j.leastRoom(space)
		if need = guess(space, least); !ofRoom(space, space.Free, least).over() {
			lim.guessedFor = &subject
		}
		known = true
	}
	lim.Room = need
	r, inv, err := j.sweep(ctx, lim)
	if err != nil {
		return err
	}
	if err := j.hurry(ctx, enough); err != nil {
		return err
	}
	if len(r.Evicted) > 0 {
		j.made.Add(1)
	}
	if space, err = j.Stock.Space(); err != nil {
		return err
	}
	if e := ofRoom(space, space.Free, need); e.over() && len(r.Evicted) == 0 {
		err := &RoomError{subject, space.Free, e.missing(), r.Left.Holders}
		text := fmt.Sprintf("no room for subject %q: %s", subject, err.Full())
		j.Log.Warn("janitor: " + text)
		j.events.add(Event{Time: inv.Now, Type: Warning, Reason: NoSpace, Size: err.Missing, Text: text})
		return err
	}
	return nil
}

// leastRoom is how much should be free at least: the disk is full with less.
func (j *Janitor) leastRoom(s disk.Space) disk.Size {
	share := j.Limits.MinFree
	if share <= 0 {
		share = leastRoom
	}
	return disk.Size{Bytes: part(s.Total.Bytes, share), Inodes: part(s.Total.Inodes, share)}
}

// guess is how much should be free for somebody who does not know what is needed.
// What was free was not enough, so it is twice that, but at most the least room more:
// nobody's word for it has all go that is not in use.
func guess(s disk.Space, least disk.Size) disk.Size {
	return disk.Size{Bytes: max(least.Bytes, min(2*s.Free.Bytes, s.Free.Bytes+least.Bytes)), Inodes: least.Inodes}
}

// EvictClone evicts one clone because somebody says so: its next mount starts
// fresh. Work on it is cancelled, and Mounts that wait for that fail. It is refused
// with the reason while a workspace stands on it; its discards are kept, so they are
// a reason too. An unknown clone is an error.
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
	case c.hold != Free && c.hold != Pending && c.hold != Working:
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
