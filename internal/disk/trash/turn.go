package trash

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/helmdeck/repos/internal/disk"
)

// ErrLater is reported once for an entry that can't be emptied in its turn, because
// somebody still writes to it or because it is very deep. An entry that is only large
// gets several turns.
var ErrLater = errors.New("not empty after its turn: tried again when nothing else is to be deleted")

// later returns an ErrLater caused by err, which may be nil.
func later(err error) error {
	if err == nil {
		return ErrLater
	}
	return fmt.Errorf("%w: %w", ErrLater, err)
}

// A container may have passed a descriptor of a directory to another one, which still
// writes to it in the trash. So deletion is limited to a turn, and an entry that may be
// growing is postponed: from then on it is worked on only while no other waits, and with
// growing pauses.
const (
	// firstTurn is enough for some 3 million files, rests included.
	firstTurn = 2 * time.Minute
	// laterTurn, in firstTurns, is for very deep entries, where nothing is deleted before
	// the bottom is reached. A new entry ends such a turn.
	laterTurn = 15
	// laterBudget is for measuring an entry when its turn ends: others wait.
	laterBudget = 5 * time.Second
	firstPause  = time.Second
	mostPause   = 5 * time.Minute
)

// fresh reports whether an entry was never postponed.
func (e *entry) fresh() bool { return e.pause == 0 }

// next begins the turn of an entry: work deletes it until the turn's context ends. If no
// entry is due, e is nil and wait says when to ask again.
func (t *Trash) next(ctx context.Context, work *remover) (e *entry, turn context.Context, end func(), wait time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	wait = refill
	length, now := t.turn, time.Now()
	if i := slices.IndexFunc(t.queue, (*entry).fresh); i >= 0 {
		e = t.queue[i]
	} else {
		length *= laterTurn
		for _, later := range t.queue {
			if left := later.due.Sub(now); left > 0 {
				wait = min(wait, left)
			} else if e == nil {
				e = later
			}
		}
	}
	if e == nil {
		return nil, nil, nil, wait
	}
	e.work = work
	turn, cancel := context.WithTimeout(ctx, length)
	if !e.fresh() {
		t.yield = cancel
	}
	return e, turn, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.yield = nil
		cancel()
	}, 0
}

// requeue puts an entry that is only large at the end of the queue for another turn.
// While fewer files were deleted than were measured, nothing suggests that somebody adds
// more, so the rest still counts as about to be freed. It returns false if nothing was
// deleted, or more than was measured, or if the size is unknown.
func (t *Trash) requeue(e *entry) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !e.fresh() || e.size == nil || e.work.removed.Load() == 0 {
		return false
	}
	left := e.left()
	if left.Inodes == 0 {
		return false
	}
	e.size, e.work = &left, nil
	t.queue = append(slices.DeleteFunc(t.queue, func(q *entry) bool { return q == e }), e)
	return true
}

// postpone ends the turn of an entry that is not empty. Somebody may be adding files, so
// none of it counts as about to be freed. left is what it still takes.
func (t *Trash) postpone(e *entry, left disk.Size) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.dequeue(e)
	t.queue = append(t.queue, e)
	if e.fresh() {
		e.pause = t.pause
	} else {
		e.pause = min(2*e.pause, mostPause)
	}
	e.size, e.later, e.due = &disk.Size{}, left, time.Now().Add(e.pause)
}

// done removes an entry from the queue; stuck is the size of what could not be deleted.
func (t *Trash) done(e *entry, stuck disk.Size) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stuck = t.stuck.Add(stuck)
	t.dequeue(e)
}

// dequeue removes an entry from the queue. The caller holds mu.
func (t *Trash) dequeue(e *entry) {
	t.queue = slices.DeleteFunc(t.queue, func(q *entry) bool { return q == e })
	if e.fresh() && t.pending() == 0 {
		close(t.idle)
	}
}

// pending counts the entries that were never postponed. The caller holds mu.
func (t *Trash) pending() int {
	n := 0
	for _, e := range t.queue {
		if e.fresh() {
			n++
		}
	}
	return n
}
