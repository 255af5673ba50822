package janitor

import (
	"slices"
	"sort"
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
	Started    EventType = "started"  // the events before are those of earlier processes
	Pushed     EventType = "pushed"   // others report these two: see Note
	NotPushed  EventType = "not-pushed"
	// What users do with checkpoints is of these types, and others report it too.
	Checkpointed EventType = "checkpoint" // one was made, or got a name
	Begun        EventType = "begun"      // a workspace begins with one
	Rewound      EventType = "rewound"    // a volume went back to one
	Removed      EventType = "removed"    // one was removed
)

// Event records what the janitor did or found, or what others Note.
type Event struct {
	// Seq is larger than that of all earlier events, and the next event's of the same process is
	// larger by one.
	Seq     int64
	Time    time.Time
	Type    EventType
	Kind    *Kind
	Reason  Reason
	Subject string
	Clone   string
	ID      string
	Volume  string
	Size    disk.Size
	Text    string
}

func eventOf(t EventType, e Eviction) Event {
	return Event{
		Time: time.Now().UTC(), Type: t, Kind: &e.Kind, Reason: e.Reason, Subject: e.Subject, Clone: e.Clone, ID: e.ID, Volume: e.Volume,
		Size: e.Size, Text: e.Text,
	}
}

// Count is the number and total size of events of one type, kind and reason.
type Count struct {
	Type   EventType
	Kind   *Kind
	Reason Reason
	Times  int64
	Size   disk.Size
}

// EventsKept bounds the memory for events to some 400 KB.
const EventsKept = 1000

// Note keeps an event of others, with the time of now, so that there is one list of events.
func (j *Janitor) Note(e Event) {
	e.Time = time.Now().UTC()
	j.record(e)
}

// record keeps an event, and counts it.
func (j *Janitor) record(e Event) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.seq++
	e.Seq = j.seq
	close(j.recorded)
	j.recorded = make(chan struct{})
	if j.config.Recorded != nil {
		j.config.Recorded(e)
	}
	if j.events = append(j.events, e); len(j.events) > EventsKept {
		j.events = j.events[1:]
	}
	i := slices.IndexFunc(j.counts, func(c Count) bool {
		return c.Type == e.Type && c.Reason == e.Reason && (c.Kind == e.Kind || c.Kind != nil && e.Kind != nil && *c.Kind == *e.Kind)
	})
	if i < 0 {
		i = len(j.counts)
		j.counts = append(j.counts, Count{Type: e.Type, Kind: e.Kind, Reason: e.Reason})
	}
	j.counts[i].Times++
	j.counts[i].Size = j.counts[i].Size.Add(e.Size)
}

// EventsAfter returns those of the last 1000 events that follow the event with the number
// seq, oldest first. The next event closes more.
func (j *Janitor) EventsAfter(seq int64) (list []Event, more <-chan struct{}) {
	j.mu.Lock()
	defer j.mu.Unlock()
	i := sort.Search(len(j.events), func(i int) bool { return j.events[i].Seq > seq })
	return slices.Clone(j.events[i:]), j.recorded
}

// Stats has counts since the start, and the results of the last sweep.
type Stats struct {
	Counts   []Count
	Findings []Finding
	// FindingsAt is when the findings were found: see Janitor.Findings.
	FindingsAt time.Time
	Last       Report
	// Sweeps and FailedSweeps count the sweeps since the start. A failed one is neither in
	// Sweeps nor in Last.
	Sweeps       int64
	FailedSweeps int64
}

// Stats returns the janitor's statistics.
func (j *Janitor) Stats() Stats {
	findings := j.Findings()
	j.mu.Lock()
	defer j.mu.Unlock()
	return Stats{
		Counts: append([]Count{}, j.counts...), Findings: findings, FindingsAt: j.watch.at, Last: j.last, Sweeps: j.sweeps, FailedSweeps: j.fails,
	}
}
