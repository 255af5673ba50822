package admission

import (
	"context"
	"time"

	"github.com/helmdeck/repos/internal/work"
	"github.com/helmdeck/repos/internal/work/keylock"
)

const (
	// MaxCopied bounds the files of a copy.
	MaxCopied = 500_000
	// fewCopied is how many files a copy may have beside those that have more.
	fewCopied = 50_000
)

// A copy has some 100 bytes in memory for each file, from its beginning until it is a checkpoint or given up.
var (
	// turns limits how many copies there are at a time (Fetch), and how many first passes (CPU), because these keep the
	// disk busy. Both give way after a second, because a client may be slow, or have gone, and a workspace may be large.
	turns = [3]work.Limits{
		work.Fetch: {Slots: 4, PerSubject: 2, Overdue: 4, Quantum: time.Second},
		work.CPU:   {Slots: 2, PerSubject: 1, Overdue: 2, Quantum: time.Second},
	}
	// large limits how many copies have more files than fewCopied. None gives way, because that would take more memory.
	large = [3]work.Limits{work.Fetch: {Slots: 2, PerSubject: 1}}
)

// Copies has the turns to copy workspaces. It is safe for concurrent use.
type Copies struct {
	subjects     keylock.Locks[string]
	turns, large *work.Scheduler

	// Few is fewCopied, except in tests.
	Few int64
}

// NewCopies returns a Copies of which nobody has a turn.
func NewCopies() *Copies {
	return &Copies{turns: work.NewScheduler(turns), large: work.NewScheduler(large), Few: fewCopied}
}

// Lock prevents that a subject gets one more checkpoint that counts, and that another first pass of it begins, until unlock is
// called.
func (c *Copies) Lock(ctx context.Context, subject string) (unlock func(), err error) {
	return c.subjects.Lock(ctx, subject)
}

// Turn is the turn of one copy, until End. Its methods may not be called concurrently.
type Turn struct {
	copies            *Copies
	subject           string
	copy, pass, large *work.Slot
}

// Turn waits for a turn of a subject.
func (c *Copies) Turn(ctx context.Context, subject string) (t *Turn, err error) {
	t = &Turn{copies: c, subject: subject}
	t.copy, err = t.acquire(ctx, c.turns, work.Fetch)
	return t, err
}

func (t *Turn) acquire(ctx context.Context, s *work.Scheduler, k work.Kind) (*work.Slot, error) {
	return s.Acquire(work.WithOwner(ctx, work.Owner{Name: "a checkpoint", Subject: t.subject}), k, false)
}

// BeginPass waits until the first pass may begin, which lasts until EndPass. The caller holds Lock.
func (t *Turn) BeginPass(ctx context.Context) (err error) {
	t.pass, err = t.acquire(ctx, t.copies.turns, work.CPU)
	return err
}

// EndPass ends a first pass, if there is one.
func (t *Turn) EndPass() {
	t.pass.Release()
	t.pass = nil
}

// Grow waits until the copy may have so many files. A first pass lets others begin theirs meanwhile.
func (t *Turn) Grow(ctx context.Context, files int64) (err error) {
	if files <= t.copies.Few || t.large != nil {
		return nil
	}
	first := t.pass != nil
	t.EndPass()
	if t.large, err = t.acquire(ctx, t.copies.large, work.Fetch); err != nil || !first {
		return err
	}
	return t.BeginPass(ctx)
}

// End ends the turn.
func (t *Turn) End() {
	for _, slot := range []*work.Slot{t.copy, t.pass, t.large} {
		slot.Release()
	}
}

// Busy returns how many turns there are now, of copies, of first passes and to be large, and how many are waited for.
func (c *Copies) Busy() (held, waiting int) {
	for _, s := range []*work.Scheduler{c.turns, c.large} {
		for _, l := range s.Load() {
			held, waiting = held+l.Held, waiting+l.Waiting
		}
	}
	return held, waiting
}
