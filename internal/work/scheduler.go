package work

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Kind is a kind of slot.
type Kind int

const (
	// CPU is for work that keeps a processor busy: checkouts, deltas, comparisons, packs.
	CPU Kind = iota
	// Fetch is for work that waits for a remote's data.
	Fetch
	// Question is for asking a remote where a ref stands, which takes seconds at most.
	Question
	kinds
)

// String returns the kind's name.
func (k Kind) String() string { return [kinds]string{"cpu", "fetch", "question"}[k] }

// Limits limit the slots of one kind.
type Limits struct {
	Slots      int // granted at the same time
	PerSubject int // of these, granted to one subject
	// Overdue is how many more slots may be granted, one for each slot that is held for
	// longer than Quantum while others wait. So a subject whose work never ends slows the
	// others down but does not stop them.
	Overdue int
	Quantum time.Duration
}

// DefaultLimits returns the limits, by Kind, for a number of processors. No subject can
// take all slots of a kind.
func DefaultLimits(processors int) [3]Limits {
	// Two subjects could not share a single slot.
	cpu := max(processors, 2)
	return [3]Limits{
		// A job of a small repository takes less than a second. One that takes longer than
		// three seconds gives way to others, each of which costs one more process: a job
		// behind those of six subjects waits about ten seconds.
		CPU: {Slots: cpu, PerSubject: cpu - 1, Overdue: 4 * cpu, Quantum: 3 * time.Second},
		// A fetch is about three processes. They mostly wait, but on loopback, or when many
		// packs arrive at the same time, they keep processors busy, so the limits depend on
		// the number of processors. Most fetch a few commits, in less than a second. Four
		// subjects can take all slots with fetches that never end: then others wait that long.
		Fetch: {Slots: 8 * cpu, PerSubject: 2 * cpu, Overdue: 24 * cpu, Quantum: 10 * time.Second},
		// A question is one request or one process, and has a timeout of 20 s.
		Question: {Slots: 64, PerSubject: 32, Overdue: 64, Quantum: 10 * time.Second},
	}
}

// Scheduler grants slots to jobs: first to urgent jobs, then to the subject that holds
// the fewest slots, then to the subject whose last grant is the oldest, then in the order
// of requests. Large jobs, whatever their kind of slot, run one at a time. It is safe for
// concurrent use.
type Scheduler struct {
	mu    sync.Mutex
	pools [kinds]pool
	large bool // a large job is running
	seq   uint64
	timer *time.Timer
}

type pool struct {
	Limits
	held    []*Slot
	subject map[string]*account
	waiting []*request
}

// account is a subject that holds slots of a kind or waits for some.
type account struct {
	held, waiting int
	granted       uint64 // the sequence number of its last grant
}

// Slot is the right to run until Release.
type Slot struct {
	s       *Scheduler
	kind    Kind
	subject string
	large   bool
	share   int
	since   time.Time
	once    sync.Once
}

// Share returns how many CPU and Fetch slots the subject had when this one was granted,
// this one included. The more, the smaller its part of the machine. Without a Scheduler
// it is 1.
func (slot *Slot) Share() int { return max(slot.share, 1) }

type request struct {
	job     *Job
	slot    *Slot
	seq     uint64
	since   time.Time
	granted chan struct{}
}

// NewScheduler returns a Scheduler with these limits, by Kind.
func NewScheduler(limits [3]Limits) *Scheduler {
	s := &Scheduler{}
	for k := range s.pools {
		s.pools[k] = pool{Limits: limits[k], subject: make(map[string]*account)}
	}
	return s
}

// Acquire waits for a slot of a kind for the job of ctx. No two large jobs run at the
// same time. The error is the cause of ctx. A context without a job counts as a job
// without subject and callers. A nil Scheduler grants every slot at once.
func (s *Scheduler) Acquire(ctx context.Context, k Kind, large bool) (*Slot, error) {
	if s == nil {
		return &Slot{}, nil
	}
	if slot := s.Try(ctx, k, large); slot != nil {
		return slot, nil
	}
	r := s.enqueue(ctx, k, large)
	r.job.queued.Add(1)
	defer r.job.queued.Add(-1)
	select {
	case <-r.granted:
		return r.slot, nil
	case <-ctx.Done():
	}
	if !s.withdraw(r) {
		r.slot.Release() // granted meanwhile
	}
	return nil, context.Cause(ctx)
}

// Try returns a slot if one can be granted at once, and nil otherwise.
func (s *Scheduler) Try(ctx context.Context, k Kind, large bool) *Slot {
	if s == nil {
		return &Slot{}
	}
	r := s.enqueue(ctx, k, large)
	if s.withdraw(r) {
		return nil
	}
	return r.slot
}

func (s *Scheduler) enqueue(ctx context.Context, k Kind, large bool) *request {
	job := JobOf(ctx)
	if job == nil {
		job = &Job{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seq++
	r := &request{
		job: job, seq: s.seq, since: time.Now(), granted: make(chan struct{}),
		slot: &Slot{s: s, kind: k, subject: job.Subject, large: large},
	}
	p := &s.pools[k]
	p.waiting = append(p.waiting, r)
	p.account(job.Subject).waiting++
	s.dispatch()
	return r
}

// withdraw takes a request back. It returns false if the slot was granted.
func (s *Scheduler) withdraw(r *request) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := &s.pools[r.slot.kind]
	i := slices.Index(p.waiting, r)
	if i < 0 {
		return false
	}
	p.waiting = slices.Delete(p.waiting, i, i+1)
	p.account(r.slot.subject).waiting--
	p.forget(r.slot.subject)
	return true
}

// Release gives the slot back. Further calls do nothing.
func (slot *Slot) Release() {
	if slot == nil || slot.s == nil {
		return
	}
	slot.once.Do(func() {
		s := slot.s
		s.mu.Lock()
		defer s.mu.Unlock()
		p := &s.pools[slot.kind]
		p.held = slices.DeleteFunc(p.held, func(other *Slot) bool { return other == slot })
		p.account(slot.subject).held--
		p.forget(slot.subject)
		if slot.large {
			s.large = false
		}
		s.dispatch()
	})
}

func (p *pool) account(subject string) *account {
	a, ok := p.subject[subject]
	if !ok {
		a = &account{}
		p.subject[subject] = a
	}
	return a
}

// forget deletes the account of a subject that neither holds slots nor waits for any.
func (p *pool) forget(subject string) {
	if a := p.subject[subject]; a.held == 0 && a.waiting == 0 {
		delete(p.subject, subject)
	}
}

// dispatch grants all slots that can be granted. The caller holds mu.
func (s *Scheduler) dispatch() {
	now := time.Now()
	var next time.Duration // until a slot is overdue while others wait; 0: never
	for k := range s.pools {
		p := &s.pools[k]
		for {
			i, wait := s.choose(p, now)
			if i < 0 {
				if wait > 0 && (next == 0 || wait < next) {
					next = wait
				}
				break
			}
			s.grant(p, i, now)
		}
	}
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
	}
	if next > 0 {
		s.timer = time.AfterFunc(next, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.dispatch()
		})
	}
}

func (s *Scheduler) grant(p *pool, i int, now time.Time) {
	r := p.waiting[i]
	p.waiting = slices.Delete(p.waiting, i, i+1)
	r.slot.since = now
	p.held = append(p.held, r.slot)
	a := p.account(r.slot.subject)
	a.waiting--
	a.held++
	s.seq++
	a.granted = s.seq
	if r.slot.large {
		s.large = true
	}
	for _, k := range []Kind{CPU, Fetch} {
		if a, ok := s.pools[k].subject[r.slot.subject]; ok {
			r.slot.share += a.held
		}
	}
	close(r.granted)
}

// choose returns the index of the request to grant next. If it is -1, wait says when a
// slot becomes overdue so that one may be granted; 0 if time alone changes nothing.
func (s *Scheduler) choose(p *pool, now time.Time) (index int, wait time.Duration) {
	index = -1
	for i, r := range p.waiting {
		if r.slot.large && s.large || p.subject[r.slot.subject].held >= p.PerSubject {
			continue
		}
		if index < 0 || p.before(r, p.waiting[index]) {
			index = i
		}
	}
	if index < 0 {
		return -1, 0
	}
	free, wait := p.free(now)
	if free {
		return index, 0
	}
	return -1, wait
}

// free reports whether one more slot may be granted. If not, wait says when the next slot
// becomes overdue; 0 if that does not help.
func (p *pool) free(now time.Time) (ok bool, wait time.Duration) {
	overdue := 0
	for _, slot := range p.held { // oldest first
		left := p.Quantum - now.Sub(slot.since)
		if left > 0 {
			wait = left
			break
		}
		overdue++
	}
	overdue = min(overdue, p.Overdue)
	if len(p.held)-overdue < p.Slots {
		return true, 0
	}
	if overdue == p.Overdue {
		return false, 0
	}
	return false, wait
}

// before reports whether a gets its slot before b.
func (p *pool) before(a, b *request) bool {
	if u, v := a.job.Urgent(), b.job.Urgent(); u != v {
		return u
	}
	x, y := p.subject[a.slot.subject], p.subject[b.slot.subject]
	switch {
	case x.held != y.held:
		return x.held < y.held
	case x.granted != y.granted:
		return x.granted < y.granted
	}
	return a.seq < b.seq
}

// Load says how busy the slots of one kind are.
type Load struct {
	Limits
	Held    int           // granted slots
	Waiting int           // requests for one
	Longest time.Duration // the wait of the oldest of them
}

// Load returns how busy the slots are, by Kind.
func (s *Scheduler) Load() (load [3]Load) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for k := range s.pools {
		p := &s.pools[k]
		l := Load{Limits: p.Limits, Held: len(p.held), Waiting: len(p.waiting)}
		for _, r := range p.waiting {
			l.Longest = max(l.Longest, now.Sub(r.since))
		}
		load[k] = l
	}
	return load
}

// LimitError says that work took longer than allowed.
type LimitError struct {
	Setting string // the setting of the limit, such as WORK_TIMEOUT
	Limit   time.Duration
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("it took longer than %s=%v: it was ended", e.Setting, e.Limit)
}
