package janitor

import (
	"sync"
	"time"

	"github.com/helmdeck/repos/internal/disk"
)

// EventType is the type of an Event.
type EventType string

const (
	Evicted    EventType = "evicted"
	NotEvicted EventType = "failed"
	Deferred   EventType = "deferred" // late parts are left for later sweeps
	Warning    EventType = "warning"  // a Finding is new, or has grown
	Cleared    EventType = "cleared"  // a Finding is resolved
)

// Event records what the janitor did or found.
type Event struct {
	Time    time.Time `json:"time"`
	Type    EventType `json:"type"`
	Kind    *Kind     `json:"kind,omitempty"`
	Reason  Reason    `json:"reason,omitempty"`
	Subject string    `json:"subject,omitempty"`
	Clone   string    `json:"clone,omitempty"`
	ID      string    `json:"id,omitempty"`
	Volume  string    `json:"volume,omitempty"`
	Size    disk.Size `json:"size,omitzero"`
	Text    string    `json:"text"`
}

func eventOf(t EventType, e Eviction) Event {
	return Event{
		Time: time.Now().UTC(), Type: t, Kind: &e.Kind, Reason: e.Reason, Subject: e.Subject, Clone: e.Clone, ID: e.ID, Volume: e.Volume,
		Size: e.Size, Text: e.Text,
	}
}

// Count is the number and total size of events of one type, kind and reason.
type Count struct {
	Type   EventType `json:"type"`
	Kind   *Kind     `json:"kind,omitempty"`
	Reason Reason    `json:"reason,omitempty"`
	Times  int64     `json:"times"`
	Size   disk.Size `json:"size"`
}

// eventsKept bounds the memory for events to some 300 KB.
const eventsKept = 1000

// ring keeps the last events, and counts all events.
type ring struct {
	mu     sync.Mutex
	list   []Event // the oldest is at next
	next   int
	counts []Count // few, so searched linearly
}

func (r *ring) add(e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.list) < eventsKept {
		r.list = append(r.list, e)
	} else {
		r.list[r.next] = e
		r.next = (r.next + 1) % eventsKept
	}
	c := r.count(e)
	c.Times++
	c.Size = c.Size.Add(e.Size)
}

func (r *ring) count(e Event) *Count {
	for i := range r.counts {
		c := &r.counts[i]
		if c.Type == e.Type && c.Reason == e.Reason && (c.Kind == e.Kind || c.Kind != nil && e.Kind != nil && *c.Kind == *e.Kind) {
			return c
		}
	}
	r.counts = append(r.counts, Count{Type: e.Type, Kind: e.Kind, Reason: e.Reason})
	return &r.counts[len(r.counts)-1]
}

// Events returns the last 1000 events since the start, oldest first.
func (j *Janitor) Events() []Event {
	r := &j.events
	r.mu.Lock()
	defer r.mu.Unlock()
	return append(append([]Event{}, r.list[r.next:]...), r.list[:r.next]...)
}

// Stats has counts since the start, and the results of the last sweep.
type Stats struct {
	Counts   []Count   `json:"counts"`
	Findings []Finding `json:"findings"`
	Last     Report    `json:"last"`
}

// Stats returns the janitor's statistics.
func (j *Janitor) Stats() Stats {
	j.events.mu.Lock()
	counts := append([]Count{}, j.events.counts...)
	j.events.mu.Unlock()
	findings := j.Findings()
	j.mu.Lock()
	defer j.mu.Unlock()
	return Stats{Counts: counts, Findings: findings, Last: j.last}
}
