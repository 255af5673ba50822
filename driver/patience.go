package driver

import (
	"slices"
	"sync"
	"time"
)

// patience knows how long a Mount may take. The engine waits 30 s after a plain
// `docker plugin enable` and 120 s otherwise, and does not say which: its deadline
// is learned from clients that hang up. One that was ended by its user hangs up at
// any time, so only several equal waits are taken for the deadline.
type patience struct {
	most time.Duration // the setting

	mu       sync.Mutex
	deadline time.Duration // that was learned; 0: none
	learned  time.Time
	hangUps  []hangUp // the last ones, oldest first
}

// hangUp is a client that did not wait for its Mount.
type hangUp struct {
	lease lease
	after time.Duration
	at    time.Time
}

const (
	// patienceMargin is how long before its client a Mount gives up: enough for
	// the answer to be written and read.
	patienceMargin = 2 * time.Second
	// patienceLeast is the shortest wait that is taken for a client's deadline:
	// the engine's default is 30 s. A client that hangs up earlier was ended.
	patienceLeast = 10 * time.Second
	// patienceSame is how far apart equal waits may be: timers are exact, but on a
	// loaded machine a request is read late.
	patienceSame = time.Second
	// patienceEqual is how many mounts have to be hung up on after an equal wait.
	patienceEqual = 3
	// patienceLasts is how long a deadline or a hang-up is remembered. What is
	// learned wrongly costs the mounts that take long, what is forgotten costs
	// patienceEqual of them the engine's error in place of ours.
	patienceLasts = time.Hour
	// patienceKept bounds the hang-ups that are kept.
	patienceKept = 32
)

// left returns how long a Mount may take.
func (p *patience) left(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fade(now)
	if p.deadline > 0 {
		return min(p.most, p.deadline-patienceMargin)
	}
	return p.most
}

// hungUp notes that the client of a Mount did not wait longer than this.
func (p *patience) hungUp(l lease, after time.Duration, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if after < patienceLeast {
		return
	}
	p.fade(now)
	p.refute(after - patienceSame)
	p.hangUps = slices.DeleteFunc(p.hangUps, func(h hangUp) bool { return h.lease == l })
	p.hangUps = append(p.hangUps, hangUp{l, after, now})
	if n := len(p.hangUps) - patienceKept; n > 0 {
		p.hangUps = slices.Delete(p.hangUps, 0, n)
	}
	equal, least := 0, after
	for _, h := range p.hangUps {
		if (h.after - after).Abs() <= patienceSame {
			equal++
			least = min(least, h.after)
		}
	}
	if equal >= patienceEqual {
		p.deadline, p.learned = least, now
	}
}

// waited notes that the client of a Mount was still there after this.
func (p *patience) waited(after time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refute(after)
}

// refute forgets what says that clients wait no longer than this: one has. It is
// called with mu held.
func (p *patience) refute(waited time.Duration) {
	if p.deadline < waited {
		p.deadline = 0
	}
	p.hangUps = slices.DeleteFunc(p.hangUps, func(h hangUp) bool { return h.after < waited })
}

// fade forgets what is too long ago. It is called with mu held.
func (p *patience) fade(now time.Time) {
	old := func(at time.Time) bool { return now.Sub(at) > patienceLasts || now.Before(at) } // the clock may have been wrong
	if old(p.learned) {
		p.deadline = 0
	}
	p.hangUps = slices.DeleteFunc(p.hangUps, func(h hangUp) bool { return old(h.at) })
}
