// Package rota says which of many things has its turn to be measured: the one that has waited longest. One that costs
// much has its turn rarely, so that it delays itself alone.
package rota

import (
	"sync"
	"time"
)

// Rota has the turns of things. It is safe for concurrent use.
type Rota[K comparable] struct {
	// Every is the time from one turn to the next of a thing that costs little.
	Every time.Duration
	// Idle is how long a thing has no turn after one, as a multiple of what that cost.
	Idle time.Duration

	mu    sync.Mutex
	turns map[K]turn
}

// turn is when a thing had its last turn.
type turn struct {
	at   time.Time // zero for never
	cost time.Duration
	soon bool // it has its next turn before it is due
}

// New returns a Rota of nothing.
func New[K comparable](every, idle time.Duration) *Rota[K] {
	return &Rota[K]{Every: every, Idle: idle, turns: make(map[K]turn)}
}

// every is the time from one turn to the next.
func (r *Rota[K]) every(t turn) time.Duration {
	every := r.Every
	if t.soon {
		every = 0
	}
	return max(every, r.Idle*t.cost)
}

// Soon makes a thing due, unless it costs too much. since is when it began.
func (r *Rota[K]) Soon(k K, since time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t, known := r.turns[k]
	if !known {
		t.at = since
	}
	t.soon = true
	r.turns[k] = t
}

// Charge notes what the last turn of a thing cost.
func (r *Rota[K]) Charge(k K, cost time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.turns[k]
	t.cost = cost
	r.turns[k] = t
}

// Due returns the thing that has waited longest, if any is due, and notes that it has its turn now. used has the things
// that are there, and when each began.
func (r *Rota[K]) Due(now time.Time, used map[K]time.Time) (next K, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for k, since := range used {
		if _, known := r.turns[k]; !known {
			r.turns[k] = turn{at: since}
		}
	}
	var longest time.Duration
	for k, t := range r.turns {
		every := r.every(t)
		waited := now.Sub(t.at)
		if waited < 0 {
			waited = every // a clock that was put back makes everything due once
		}
		if _, there := used[k]; !there && !t.soon { // it had its turn since it ended
			if waited >= r.Idle*t.cost {
				delete(r.turns, k)
			}
		} else if over := waited - every; over > longest || over == longest && !ok {
			next, longest, ok = k, over, true
		}
	}
	if ok {
		r.turns[next] = turn{at: now}
	}
	return next, ok
}

// Len returns how many things have turns.
func (r *Rota[K]) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.turns)
}
