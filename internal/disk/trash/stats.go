package trash

import (
	"context"
	"slices"
	"time"

	"github.com/helmdeck/repos/internal/disk"
)

// Stats describes the content of the trash.
type Stats struct {
	// Entries counts those that wait for deletion or are being deleted.
	Entries int
	// Size is the space that they still take, as far as it is known, without the postponed ones.
	Size disk.Size
	// Later is the space that the postponed ones took when their last turn ended. They may be
	// growing.
	Later disk.Size
	// Unmeasured counts the entries whose size is not known yet.
	Unmeasured int
	// Stuck is the size of what could not be deleted since Open; Size does not include it.
	Stuck disk.Size
}

// Stats does no I/O.
func (t *Trash) Stats() Stats {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := Stats{Entries: len(t.queue), Stuck: t.stuck}
	for _, e := range t.queue {
		s.Later = s.Later.Add(e.later)
		if e.size == nil {
			s.Unmeasured++
			continue
		}
		s.Size = s.Size.Add(e.left())
	}
	return s
}

// left estimates how much of an entry is not deleted yet, as if all its files had the
// same size.
func (e *entry) left() disk.Size {
	if e.work == nil || e.size.Inodes == 0 {
		return *e.size
	}
	inodes := max(e.size.Inodes-e.work.removed.Load(), 0)
	return disk.Size{Bytes: int64(float64(e.size.Bytes) * float64(inodes) / float64(e.size.Inodes)), Inodes: inodes}
}

// poll is how often await calls enough.
const poll = 10 * time.Millisecond

// Hurry makes the worker delete without rest until enough returns true or only postponed
// entries are left. The entries whose turn it is then are deleted at ordinary priority. It
// calls enough many times a second. The error is the context's.
func (t *Trash) Hurry(ctx context.Context, enough func() bool) error {
	t.mu.Lock()
	pending := t.pending()
	t.mu.Unlock()
	if pending == 0 || enough() {
		return nil // the worker is left alone
	}
	t.hurry(1)
	defer t.hurry(-1)
	return t.await(ctx, enough)
}

// await waits until enough returns true, or only postponed entries are left.
func (t *Trash) await(ctx context.Context, enough func() bool) error {
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for !enough() {
		t.mu.Lock()
		pending, idle := t.pending(), t.idle
		t.mu.Unlock()
		if pending == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-idle:
		case <-tick.C:
		}
	}
	return nil
}

func (t *Trash) hurry(n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.hurries += n; t.hurries > 0 {
		t.pace.SetRest(0)
		if t.quicken != nil {
			t.quicken()
		}
	} else {
		t.pace.SetRest(t.rest)
	}
}

// setQuicken sets the function that Hurry calls, and reports whether nobody is in a hurry now.
func (t *Trash) setQuicken(f context.CancelFunc) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.quicken = f
	return t.hurries == 0
}

// measure measures the entries of unknown size, unless a Hurry waits for their deletion.
func (t *Trash) measure(ctx context.Context) {
	for {
		t.mu.Lock()
		i := slices.IndexFunc(t.queue, func(e *entry) bool { return e.size == nil })
		if i < 0 || t.hurries > 0 || ctx.Err() != nil {
			t.mu.Unlock()
			return
		}
		next := t.queue[i]
		look, cancel := context.WithCancel(ctx)
		t.quicken = cancel
		t.mu.Unlock()
		size := t.sizeOf(look, next.path, disk.Budget)
		t.mu.Lock()
		if t.quicken = nil; look.Err() == nil {
			next.size = &size
		}
		t.mu.Unlock()
		cancel()
	}
}

// sizeOf measures an entry, without the parts that can't be read in time.
func (t *Trash) sizeOf(ctx context.Context, path string, budget time.Duration) disk.Size {
	found, _ := disk.Query{Pace: t.pace, Budget: budget}.Take(ctx, path)
	return found.Size
}
