package driver

import (
	"slices"
	"sync"
	"time"
)

// patience knows how long a Mount may take. The engine waits 30 s after a plain
// `docker plugin enable` and 120 s otherwise, and does not say which: its deadline is
// learned from clients that hang up. A user who interrupts a client makes it hang up at
// any time, so only several equal waits are taken for the deadline.
type patience struct {
	most time.Duration // the setting

	mu       sync.Mutex
	deadline time.Duration // learned; 0 if unknown
	learned  time.Time
	hangUps  []hangUp // the last ones, oldest first
}

// hangUp is a client that did not wait for its Mount.
type hangUp struct {
	mount mountID
	after time.Duration
	at    time.Time
}

const (
	// patienceMargin is how long before its client a Mount gives up: enough to write
	// and read the answer.
	patienceMargin = 2 * time.Second
	// patienceLeast is the shortest wait that can be a deadline: the engine's default is
	// 30 s. A client that hangs up earlier was interrupted.
	patienceLeast = 10 * time.Second
	// patienceSame is the largest difference between equal waits: timers are exact, but a
	// loaded machine reads a request late.
	patienceSame = time.Second
	// patienceEqual is how many clients must hang up after an equal wait.
	patienceEqual = 3
	// patienceLasts is how long a deadline or a hang-up is remembered. A wrong deadline
	// makes slow mounts fail early. A forgotten one makes patienceEqual mounts fail with
	// the engine's error instead of ours.
	patienceLasts = time.Hour
	// patienceKept is how many hang-ups are remembered at most.
	patienceKept = 32
)

// left returns how long a Mount may take.
func (p *patience) left(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expire(now)
	if p.deadline > 0 {
		return min(p.most, p.deadline-patienceMargin)
	}
	return p.most
}

// hungUp notes that the client of a Mount did not wait longer than this.
func (p *patience) hungUp(m mountID, after time.Duration, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if after < patienceLeast {
		return
	}
	p.expire(now)
	p.refute(after - patienceSame)
	p.hangUps = slices.DeleteFunc(p.hangUps, func(h hangUp) bool { return h.mount == m })
	p.hangUps = append(p.hangUps, hangUp{m, after, now})
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

// refute forgets a deadline and hang-ups that are shorter than this, because a client
// waited so long. mu must be held.
func (p *patience) refute(waited time.Duration) {
	if p.deadline < waited {
		p.deadline = 0
	}
	p.hangUps = slices.DeleteFunc(p.hangUps, func(h hangUp) bool { return h.after < waited })
}

// expire forgets what is too old. mu must be held.
func (p *patience) expire(now time.Time) {
	old := func(at time.Time) bool { return now.Sub(at) > patienceLasts || now.Before(at) } // the clock may have been wrong
	if old(p.learned) {
		p.deadline = 0
	}
	p.hangUps = slices.DeleteFunc(p.hangUps, func(h hangUp) bool { return old(h.at) })
}
