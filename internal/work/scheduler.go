package work

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Kind is a kind of slot.
type Kind int

const (
	// CPU is for what keeps a processor busy: checkouts, deltas, comparisons, packs.
	CPU Kind = iota
	// Fetch is for what waits for a remote's data.
	Fetch
	// Question is for what asks a remote where a ref stands, within seconds.
	Question
	kinds
)

// Limits bound the slots of one kind.
type Limits struct {
	Slots      int // that are granted at a time
	PerSubject int // of these, to one subject
	// Overdue is how many more may be granted in place of slots that are held for
	// longer than Quantum while others wait: a subject whose work never ends slows the
	// others down, and does not stop them.
	Overdue int
	Quantum time.Duration
}

// DefaultLimits are those of a machine with so many processors. No subject can take
// all slots of a kind.
func DefaultLimits(processors int) [3]Limits {
	// One slot alone could not be shared between two subjects.
	cpu := max(processors, 2)
	return [3]Limits{
		// A job of a small repository is done within a second. One that takes longer than
		// three makes way for others, at the cost of one more process for each of these:
		// a job behind those of six subjects waits some ten seconds.
		CPU: {Slots: cpu, PerSubject: cpu - 1, Overdue: 4 * cpu, Quantum: 3 * time.Second},
		// A fetch is some three processes. They mostly wait, but on loopback, or when many
		// packs arrive at a time, they keep a processor as busy as the remote is fast, so
		// the limits follow the processors. A minute is longer than most take.
		Fetch: {Slots: 8 * cpu, PerSubject: 2 * cpu, Overdue: 24 * cpu, Quantum: time.Minute},
		// A question is one process, and is given up after 20 s.
		Question: {Slots: 64, PerSubject: 32, Overdue: 64, Quantum: 10 * time.Second},
	}
}

// Scheduler grants slots to jobs: to urgent ones first, then to those of the subject
// that holds the fewest, then to those of the subject whose last grant is the longest
// ago, then in the order of their requests. Large jobs, of any kind of slot, run one
// at a time. It is safe for concurrent use.
type Scheduler struct {
	mu    sync.Mutex
	pools [kinds]pool
	large bool // one is running
	seq   uint64
	timer *time.Timer
}

type pool struct {
	Limits
	held    []*Slot
	subject map[string]*account
	waiting []*request
}

// account is what the scheduler knows of a subject that holds slots of a kind or
// waits for some.
type account struct {
	held, waiting int
	granted       uint64 // when it last got one
}

// Slot is the right to run, until Release.
type Slot struct {
	s       *Scheduler
	kind    Kind
	subject string
	large   bool
	share   int
	since   time.Time
	once    sync.Once
}

// Share is how many slots to compute and to fetch the slot's subject had when this
// one was granted, this one included: the more, the less of the machine is due to it.
// Without a Scheduler it is 1.
func (slot *Slot) Share() int { return max(slot.share, 1) }

type request struct {
	job     *Job
	slot    *Slot
	seq     uint64
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

// Acquire waits for a slot of a kind for the job of ctx; large says that no other
// large job may run beside it. The error is the cause of ctx. A context without a
// job has one that nobody waits for, of no subject. A nil Scheduler grants
// everything at once.
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
		r.slot.Release() // it was granted meanwhile
	}
	return nil, context.Cause(ctx)
}

// Try returns a slot if there is one at once, and otherwise nil.
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
		job: job, seq: s.seq, granted: make(chan struct{}),
		slot: &Slot{s: s, kind: k, subject: job.Subject, large: large},
	}
	p := &s.pools[k]
	p.waiting = append(p.waiting, r)
	p.account(job.Subject).waiting++
	s.dispatch()
	return r
}

// withdraw takes a request back. It reports false when the slot was granted.
func (s *Scheduler) withdraw(r *request) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := &s.pools[r.slot.kind]
	for i, other := range p.waiting {
		if other == r {
			p.waiting = append(p.waiting[:i:i], p.waiting[i+1:]...)
			p.account(r.slot.subject).waiting--
			p.forget(r.slot.subject)
			return true
		}
	}
	return false
}

// Release gives the slot back. It may be called more than once.
func (slot *Slot) Release() {
	if slot == nil || slot.s == nil {
		return
	}
	slot.once.Do(func() {
		s := slot.s
		s.mu.Lock()
		defer s.mu.Unlock()
		p := &s.pools[slot.kind]
		for i, other := range p.held {
			if other == slot {
				p.held = append(p.held[:i:i], p.held[i+1:]...)
				break
			}
		}
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

// forget drops the account of a subject that has nothing to do with the pool any more.
func (p *pool) forget(subject string) {
	if a := p.subject[subject]; a.held == 0 && a.waiting == 0 {
		delete(p.subject, subject)
	}
}

// dispatch grants what can be granted. It is called with mu held.
func (s *Scheduler) dispatch() {
	now := time.Now()
	var next time.Duration // until a slot is overdue that others wait for
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
	p.waiting = append(p.waiting[:i:i], p.waiting[i+1:]...)
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

// choose returns the index of the request to grant next, or -1, and then after how
// long there may be one because a slot is overdue; 0 if time alone changes nothing.
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

// free reports whether one more slot may be granted. If not, wait says when a slot
// that is held will be overdue, if that helps.
func (p *pool) free(now time.Time) (ok bool, wait time.Duration) {
	overdue := 0
	for _, slot := range p.held { // the oldest first
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

// before reports whether a is to be granted before b.
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

// LimitError says that work took longer than it may.
type LimitError struct {
	Setting string // that bounds it, such as WORK_TIMEOUT
	Limit   time.Duration
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("it took longer than %s=%v: it was ended", e.Setting, e.Limit)
}
