package janitor

import (
	"context"
	"fmt"

	"github.com/helmdeck/repos/internal/disk"
)

// RoomError means that the disk is full. Error is for the subject: it names no other
// subject, nor anything of theirs.
type RoomError struct {
	Subject string
	Free    disk.Size
	Missing disk.Size // how much more must be free
	Holders []Holder  // of what can't be freed, largest first
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
	const whose = "of others: docker repos df and the plugin's log say whose"
	switch {
	case len(own) == len(e.Holders):
		return e.text(Held(own))
	case len(own) == 0:
		return e.text(fmt.Sprintf("held by %s %s", Bytes(others), whose))
	}
	return e.text(fmt.Sprintf("%s, and %s %s", Held(own), Bytes(others), whose))
}

// Full is Error for an operator: it names the largest holders of all subjects.
func (e *RoomError) Full() string { return e.text(Held(e.Holders)) }

func (e *RoomError) text(held string) string {
	free, missing := Bytes(e.Free.Bytes), Bytes(e.Missing.Bytes)
	if e.Missing.Bytes <= 0 {
		free, missing = fmt.Sprint(e.Free.Inodes, " inodes"), fmt.Sprint(e.Missing.Inodes, " inodes")
	}
	return fmt.Sprintf("the disk is full: %s are free, %s are missing, and nothing more can be evicted (%s): end containers, remove volumes with mode=keep, or give the disk more room",
		free, missing, held)
}

// leastRoom is the share of the filesystem to free for an unknown need if MinFree is not
// set.
const leastRoom = 0.01

// others is the factor by which MakeRoom lets the trash free more than a known need, up to the
// free space below which the disk counts as full: see roomFor.
const others = 16

// MakeRoom frees at least need for a subject that got ENOSPC, and returns when it is free. The trash goes first. If
// need is zero, which means unknown, all of the trash goes, and need is guessed from what is free at the call; then,
// unless the disk is visibly full, MakeRoom evicts no checkpoints of other subjects and no protected clones. The error is
// a *RoomError if there is less and nothing could be evicted; otherwise that of ctx or the stock.
func (j *Janitor) MakeRoom(ctx context.Context, subject string, need disk.Size) error {
	space, err := j.config.Stock.Space()
	if err != nil {
		return err
	}
	guessed, made := need == (disk.Size{}), j.made.Load()
	if guessed {
		need = guess(space, j.leastRoom(space))
	}
	if err := j.hurry(ctx, func() bool { return !guessed && j.free(j.roomFor(need, space)) }); err != nil {
		return err
	}
	unlock, err := j.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if j.free(need) || guessed && j.made.Load() != made {
		return nil // freed by the trash, or by another call while this one waited
	}
	return j.evictFor(ctx, subject, need, guessed)
}

// roomFor returns how much of the trash to delete for somebody who needs so much: more than that, because others
// take what is free too, and to delete more of the trash costs nobody anything.
func (j *Janitor) roomFor(need disk.Size, s disk.Space) disk.Size {
	least := j.leastRoom(s)
	return disk.Size{
		Bytes: max(need.Bytes, min(others*need.Bytes, least.Bytes)), Inodes: max(need.Inodes, min(others*need.Inodes, least.Inodes)),
	}
}

// evictFor evicts until need is free, and waits until the trash has freed it. The caller holds the lock.
func (j *Janitor) evictFor(ctx context.Context, subject string, need disk.Size, guessed bool) error {
	space, err := j.config.Stock.Space()
	if err != nil {
		return err
	}
	lim := j.config.Limits
	lim.Room, lim.lateDone = need, true
	if guessed && !j.full(space) {
		lim.guessedFor = &subject
	}
	r, inv, err := j.sweep(ctx, lim)
	if err != nil {
		return err
	}
	if err := j.hurry(ctx, func() bool { return j.free(need) }); err != nil {
		return err
	}
	if len(r.Evicted) > 0 {
		j.made.Add(1)
		return nil // even if it is less: the caller tries with what there is
	}
	if space, err = j.config.Stock.Space(); err != nil {
		return err
	}
	short := ofRoom(space, space.Free, need)
	if !short.over() {
		return nil
	}
	// The findings of the last sweep may name others than those who fill the disk now.
	j.observe(ctx, inv, Report{Left: Decide(inv, j.config.Limits)})
	failure := &RoomError{subject, space.Free, short.missing(), r.Left.Holders}
	text := fmt.Sprintf("no room for subject %q: %s", subject, failure.Full())
	j.config.Log.WithContext(ctx).Warn("janitor: " + text)
	j.record(Event{Time: inv.Now, Type: Warning, Reason: NoSpace, Size: failure.Missing, Text: text})
	return failure
}

// AwaitRoom makes the trash hurry until the disk does not count as full, nothing is left in it, or hurryMost has
// passed. It evicts nothing. The error is that of ctx.
func (j *Janitor) AwaitRoom(ctx context.Context) error {
	return j.hurry(ctx, j.roomy)
}

// roomy reports whether the disk does not count as full, as far as that can be told.
func (j *Janitor) roomy() bool {
	s, err := j.config.Stock.Space()
	return err != nil || !j.full(s)
}

// full reports whether the disk counts as full.
func (j *Janitor) full(s disk.Space) bool { return ofRoom(s, s.Free, j.leastRoom(s)).over() }

// free reports whether that much is free.
func (j *Janitor) free(need disk.Size) bool {
	s, err := j.config.Stock.Space()
	return err == nil && !ofRoom(s, s.Free, need).over()
}

// leastRoom returns the free space below which the disk counts as full.
func (j *Janitor) leastRoom(s disk.Space) disk.Size {
	share := j.config.Limits.MinFree
	if share <= 0 {
		share = leastRoom
	}
	return disk.Size{Bytes: part(s.Total.Bytes, share), Inodes: part(s.Total.Inodes, share)}
}

// guess returns how much should be free for an unknown need. The free space was not enough,
// so it is twice that space, but at most least more, so that an unproven need does not evict
// everything. If hardly an inode is free and bytes are not short, it is inodes alone.
func guess(s disk.Space, least disk.Size) disk.Size {
	if s.Free.Inodes < part(s.Total.Inodes, leastRoom) && s.Free.Bytes >= least.Bytes {
		return disk.Size{Inodes: least.Inodes}
	}
	return disk.Size{Bytes: max(least.Bytes, min(2*s.Free.Bytes, s.Free.Bytes+least.Bytes)), Inodes: least.Inodes}
}
