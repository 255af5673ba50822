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

// Scheduler grants slots to jobs: first to urgent jobs, then to those of subjects of which no slot was ended lately
// (Slot.Outside), then to the subject that holds the fewest slots, then to the subject whose last grant is the oldest, then
// in the order of requests. In all of this the jobs of a subject that give way (Job.GivesWay) count as those of another
// subject. Large jobs, whatever their kind of slot, run one at a time. It is safe for concurrent use.
type Scheduler struct {
	mu    sync.Mutex
	pools [kinds]pool
	large bool // a large job is running
	seq   uint64
	slow  map[string]time.Time // when a slot of a subject was ended last for another one: see slowTime
	timer *time.Timer
	moved chan struct{} // closed by notify; nil if nobody waits for it
}

type pool struct {
	Limits
	held     []*Slot
	accounts map[holder]*account
	waiting  []*request
}

// holder is what has an account: the jobs of a subject that give way, or its others. They are counted apart,
// because the others do not wait for those that give way.
type holder struct {
	subject string
	gives   bool // Job.GivesWay
}

// account is a holder that holds slots of a kind or waits for some.
type account struct {
	held, waiting int
	granted       uint64 // the sequence number of its last grant
}

// Slot is the right to run until Release.
type Slot struct {
	holder
	s       *Scheduler
	kind    Kind
	large   bool
	share   int
	spreads bool // Room was called
	since   time.Time
	once    sync.Once
	job     *Job
	outside *outside // nil unless it waits for somebody outside
	ended   bool     // because it stalled; Release comes soon
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
		s.pools[k] = pool{Limits: limits[k], accounts: make(map[holder]*account)}
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
	defer Waited(ctx, fmt.Sprintf("%s (%s)", aTurn, k), time.Now())
	r := s.enqueue(ctx, k, large)
	r.job.queue()
	defer r.job.proceed()
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
		slot: &Slot{holder: holder{job.Subject, job.GivesWay}, s: s, kind: k, large: large, job: job},
	}
	p := &s.pools[k]
	p.waiting = append(p.waiting, r)
	p.account(r.slot.holder).waiting++
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
	p.account(r.slot.holder).waiting--
	p.forget(r.slot.holder)
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
		p.account(slot.holder).held--
		p.forget(slot.holder)
		if slot.large {
			s.large = false
		}
		s.notify(slot.kind)
		s.dispatch()
	})
}

func (p *pool) account(h holder) *account {
	a, ok := p.accounts[h]
	if !ok {
		a = &account{}
		p.accounts[h] = a
	}
	return a
}

// forget deletes the account of a holder that neither holds slots nor waits for any.
func (p *pool) forget(h holder) {
	if a := p.accounts[h]; a.held == 0 && a.waiting == 0 {
		delete(p.accounts, h)
	}
}

// dispatch grants all slots that can be granted. The caller holds mu.
func (s *Scheduler) dispatch() {
	now := time.Now()
	var next time.Duration // until a slot is overdue, or stalled, while others wait; 0: never
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
		if wait := s.endStalled(p, now); wait > 0 && (next == 0 || wait < next) {
			next = wait
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
	a := p.account(r.slot.holder)
	a.waiting--
	a.held++
	s.seq++
	a.granted = s.seq
	if r.slot.large {
		s.large = true
	}
	for _, k := range []Kind{CPU, Fetch} {
		for _, slot := range s.pools[k].held {
			if slot.subject == r.slot.subject {
				r.slot.share++
			}
		}
	}
	close(r.granted)
	s.notify(r.slot.kind)
}

// choose returns the index of the request to grant next. If it is -1, wait says when a
// slot becomes overdue so that one may be granted; 0 if time alone changes nothing.
func (s *Scheduler) choose(p *pool, now time.Time) (index int, wait time.Duration) {
	index = -1
	if len(p.waiting) == 0 {
		return index, 0
	}
	free, next := p.free(now)
	for i, r := range p.waiting {
		if r.slot.large && s.large || s.isSlow(r.job.Subject, now) && s.heldSlowly(p, now) >= max(p.Slots/2, 1) {
			continue
		}
		full := p.accounts[r.slot.holder].held >= p.PerSubject
		if full && p.Again == 0 {
			continue
		}
		if full && !p.again(r.slot.holder, now) || !full && !free {
			wait = next
			continue
		}
		if index < 0 || s.before(p, r, p.waiting[index], now) {
			index = i
		}
	}
	if index >= 0 {
		return index, 0
	}
	return -1, wait
}

// overdue reports whether others do not wait for a slot, and if not, when that begins.
func (p *pool) overdue(slot *Slot, now time.Time) (ok bool, left time.Duration) {
	left = p.Quantum - now.Sub(slot.since)
	return left <= 0 || slot.gives, left
}

// free reports whether one more slot may be granted to a holder of fewer than PerSubject.
// next says when the next slot becomes overdue; 0 if none does.
func (p *pool) free(now time.Time) (ok bool, next time.Duration) {
	overdue, by := 0, make(map[holder]int)
	for _, slot := range p.held {
		switch late, left := p.overdue(slot, now); {
		case late && by[slot.holder] < p.PerSubject: // what it has beyond that does not count at all
			by[slot.holder]++
			overdue++
		case !late && (next == 0 || left < next):
			next = left
		}
	}
	return len(p.held)-p.grantedAgain()-min(overdue, p.Overdue) < p.Slots, next
}

// again reports whether one more slot may be granted to a holder of PerSubject or more.
func (p *pool) again(h holder, now time.Time) bool {
	overdue := 0
	for _, slot := range p.held {
		if late, _ := p.overdue(slot, now); late && slot.holder == h {
			overdue++
		}
	}
	return p.accounts[h].held-min(overdue, p.Again) < p.PerSubject && p.grantedAgain() < p.AgainOfAll
}

// grantedAgain returns how many slots holders hold beyond PerSubject.
func (p *pool) grantedAgain() (n int) {
	if p.Again == 0 {
		return 0
	}
	for _, a := range p.accounts {
		n += max(a.held-p.PerSubject, 0)
	}
	return n
}

// before reports whether a gets its slot before b.
func (s *Scheduler) before(p *pool, a, b *request, now time.Time) bool {
	if u, v := a.job.Urgent(), b.job.Urgent(); u != v {
		return u
	}
	if u, v := s.isSlow(a.job.Subject, now), s.isSlow(b.job.Subject, now); u != v {
		return v
	}
	x, y := p.accounts[a.slot.holder], p.accounts[b.slot.holder]
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
