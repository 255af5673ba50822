package meta

import (
	"fmt"
	"time"

	"github.com/helmdeck/repos/internal/disk"
)

// Event is something that the janitor did or found, or that was noted beside that.
type Event struct {
	Seq     int64 // unique, and in the order of the events
	Time    time.Time
	Type    string
	Kind    string `json:",omitempty"`
	Reason  string `json:",omitempty"`
	Subject string `json:",omitempty"`
	Clone   string `json:",omitempty"`
	ID      string `json:",omitempty"`
	Volume  string `json:",omitempty"`
	Size    disk.Size
	Text    string
}

// key is in the order of Seq, which is not negative.
func (e Event) key() string { return fmt.Sprintf("%019d", e.Seq) }

func (t *Tx) PutEvent(e Event) error    { return events.put(t.tx, e.key(), e) }
func (t *Tx) DeleteEvent(e Event) error { return events.delete(t.tx, e.key()) }
