package trash

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/helmdeck/repos/internal/disk"
)

// ErrLater is reported once of an entry that can't be emptied in its turn, because
// somebody still writes into it, or because it is very deep. An entry that is only
// large has several turns.
var ErrLater = errors.New("not empty after its turn: it is tried again when nothing else is to be deleted")

// later is an ErrLater because of err, which may be nil.
func later(err error) error {
	if err == nil {
		return ErrLater
	}
	return fmt.Errorf("%w: %w", ErrLater, err)
}

// A container may have handed a directory to another one that writes to it when it
// is in the trash already. So an entry has a turn, and one that may be filled is put
// back after that: it goes on only while no other waits, and rests more and more.
const (
	// firstTurn is good for some 3 million files, with rests.
	firstTurn = 2 * time.Minute
	// laterTurn is for what is very deep, of which nothing is deleted before the
	// bottom is reached; in firstTurns. Others don't wait for it to end.
	laterTurn  = 15
	firstPause = time.Second
	mostPause  = 5 * time.Minute
)

// fresh says that an entry has not been put back.
func (e *entry) fresh() bool { return e.pause == 0 }

// next begins the turn of an entry, which work is to delete until the context of
// the turn ends. Without one it returns after how long to ask again.
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

// goOn has an entry whose turn is over, but which is only large, wait behind the
// others for another turn. As long as less of it was deleted than was measured,
// nothing says that somebody fills it: what is left of it counts as to be freed. It
// returns false if nothing was deleted, or too much, or if the size is not known.
func (t *Trash) goOn(e *entry) bool {
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

// putBack ends the turn of an entry that is not empty. Somebody may be filling it:
// none of it counts as to be freed.
func (t *Trash) putBack(e *entry) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.remove(e)
	t.queue = append(t.queue, e)
	if e.fresh() {
		e.pause = t.pause
	} else {
		e.pause = min(2*e.pause, mostPause)
	}
	e.size, e.due = &disk.Size{}, time.Now().Add(e.pause)
}

// done ends the turn of an entry for good; stuck is what it leaves behind.
func (t *Trash) done(e *entry, stuck disk.Size) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stuck = t.stuck.Add(stuck)
	t.remove(e)
}

// remove takes an entry out of the queue. The caller holds mu.
func (t *Trash) remove(e *entry) {
	t.queue = slices.DeleteFunc(t.queue, func(q *entry) bool { return q == e })
	if e.fresh() && t.pending() == 0 {
		close(t.idle)
	}
}

// pending counts the entries that had no turn yet, or have their first. The caller
// holds mu.
func (t *Trash) pending() int {
	n := 0
	for _, e := range t.queue {
		if e.fresh() {
			n++
		}
	}
	return n
}
