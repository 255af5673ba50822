package work

import (
	"context"
	"fmt"
	"slices"
	"time"
)

const (
	// leastMoved is how many bytes somebody outside must move in the time of Slot.Outside: 35 KB a second, in 30 s.
	leastMoved = 1 << 20
	// slowTime is for how long subjects of which a slot was ended for another one come after the others, and hold together
	// at most half of Limits.Slots: they may begin the same again at once, and would keep others waiting once more.
	slowTime = time.Hour
)

// StalledError is the error of work that was ended because others waited for its slot. It is a context.Canceled.
type StalledError struct{ After time.Duration }

func (e *StalledError) Error() string {
	return fmt.Sprintf("others waited for its turn, and it moved less than %d MiB in %v: it was ended; run it again", leastMoved>>20, e.After)
}

func (e *StalledError) Is(target error) bool { return target == context.Canceled }

// outside is a part of the work of a slot that waits for somebody outside.
type outside struct {
	after time.Duration
	end   context.CancelCauseFunc
	since time.Time // when the last leastMoved bytes had been moved, or it began
	moved int64     // bytes, since then
}

// Outside begins a part of the work in which somebody outside, such as a remote or a reader, decides how long it takes.
// It lasts until end, which must be called. Its context ends with a *StalledError if others wait for the slot, more than
// until some are overdue, and less than 1 MiB was moved in the time after. Those that stalled longest are ended first, one
// for each request that can be granted then. The time in which the job waits for other slots does not count. A slot has one
// such part at a time.
func (slot *Slot) Outside(ctx context.Context, after time.Duration) (_ context.Context, end func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	s := slot.s
	if s == nil {
		return ctx, func() { cancel(nil) }
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	slot.ended = false
	slot.outside = &outside{after: after, end: cancel, since: time.Now()}
	s.dispatch() // others may wait already
	return ctx, func() {
		s.mu.Lock()
		slot.outside = nil
		s.mu.Unlock()
		cancel(nil)
	}
}

// Moved notes that somebody outside has taken or sent n bytes. Only bytes count that the work is about: a remote can
// send others for as long as it likes.
func (slot *Slot) Moved(n int64) {
	if slot.s == nil {
		return
	}
	slot.s.mu.Lock()
	defer slot.s.mu.Unlock()
	o := slot.outside
	if o == nil {
		return
	}
	if o.moved += min(n, leastMoved); o.moved >= leastMoved {
		o.moved, o.since = 0, time.Now()
	}
}

// left returns when a slot that waits for somebody outside has stalled; 0 if it has. The caller holds mu.
func (slot *Slot) left(now time.Time) time.Duration {
	o, since := slot.outside, slot.outside.since
	if slot.job.Queued() {
		return o.after
	}
	if went := slot.job.wentOn(); went.After(since) {
		since = went
	}
	return max(o.after-now.Sub(since), 0)
}

// endStalled ends the slot that stalled longest, if a request can be granted then that could not even if all slots were
// overdue. next says when there may be one; 0: never. The caller holds mu.
func (s *Scheduler) endStalled(p *pool, now time.Time) (next time.Duration) {
	if len(p.waiting) == 0 || !slices.ContainsFunc(p.held, func(slot *Slot) bool { return slot.outside != nil }) {
		return 0
	}
	outside := slices.DeleteFunc(slices.Clone(p.held), func(slot *Slot) bool { return slot.outside == nil || slot.ended })
	ended := slices.DeleteFunc(slices.Clone(p.held), func(slot *Slot) bool { return !slot.ended })
	if s.grantsWithout(p, ended, now) != nil {
		return 0 // by itself, or when those have ended
	}
	slices.SortFunc(outside, func(a, b *Slot) int { return a.outside.since.Compare(b.outside.since) })
	for _, slot := range outside {
		switch r, left := s.grantsWithout(p, append(ended, slot), now), slot.left(now); {
		case r == nil:
		case left > 0:
			if next == 0 || left < next {
				next = left
			}
		default:
			slot.ended = true
			slot.outside.end(&StalledError{slot.outside.after})
			if r.job.Subject != slot.subject {
				s.noteSlow(slot.subject, now)
			}
			return 0
		}
	}
	return next
}

// grantsWithout returns the request that could be granted if some slots were released, and all others were overdue; nil if
// none could.
func (s *Scheduler) grantsWithout(p *pool, released []*Slot, now time.Time) (r *request) {
	held := p.held
	p.held = slices.DeleteFunc(slices.Clone(held), func(slot *Slot) bool { return slices.Contains(released, slot) })
	for _, slot := range released {
		p.accounts[slot.holder].held--
	}
	if i, _ := s.choose(p, now.Add(p.Quantum)); i >= 0 {
		r = p.waiting[i]
	}
	p.held = held
	for _, slot := range released {
		p.accounts[slot.holder].held++
	}
	return r
}

// noteSlow notes that a slot of a subject was ended for another subject.
func (s *Scheduler) noteSlow(subject string, now time.Time) {
	if s.slow == nil {
		s.slow = make(map[string]time.Time)
	}
	for other := range s.slow {
		if !s.isSlow(other, now) {
			delete(s.slow, other)
		}
	}
	s.slow[subject] = now
}

// isSlow reports whether a slot of a subject was ended lately for another one.
func (s *Scheduler) isSlow(subject string, now time.Time) bool {
	at, ok := s.slow[subject]
	return ok && now.Sub(at) < slowTime
}

// heldSlowly returns how many slots those subjects hold.
func (s *Scheduler) heldSlowly(p *pool, now time.Time) (n int) {
	for _, slot := range p.held {
		if s.isSlow(slot.subject, now) {
			n++
		}
	}
	return n
}
