// Package journal keeps the last lines of the log in memory, so that operators can read them where they
// can't read the engine's log.
//
// Callers may rely on this: memory is bounded, each line is valid UTF-8 without control characters, and
// no URL in it has a password. It is no second defense for other secrets, which the log never has.
package journal

import (
	"fmt"
	"regexp"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/helmdeck/repos/internal/escape"
	"github.com/helmdeck/repos/internal/origin"
)

const (
	// maxLines and maxBytes bound the memory: a busy machine logs some thousand mounts an hour.
	maxLines = 5000
	maxBytes = 2 << 20
	// maxText bounds a message or a field, in bytes.
	maxText = 4 << 10
	// overhead is what a line takes besides its text, roughly.
	overhead = 200
)

// Line is one line of the log.
type Line struct {
	Seq     int64 // of the line before plus one; an earlier process may have had the same
	Time    time.Time
	Level   string // error, warning, info or debug
	Message string
	Fields  map[string]string
}

// Ring has the last lines. New makes one. It is a logrus.Hook, for all levels that are logged. It is safe
// for concurrent use.
type Ring struct {
	mu    sync.Mutex // never held over I/O
	lines []Line     // do not change, once they are here
	bytes int
	seq   int64
	more  chan struct{} // closed with the next line
}

// New returns an empty Ring.
func New() *Ring { return &Ring{more: make(chan struct{})} }

// Levels implements logrus.Hook.
func (r *Ring) Levels() []logrus.Level { return logrus.AllLevels }

// Fire implements logrus.Hook. It never fails.
func (r *Ring) Fire(e *logrus.Entry) error {
	l := Line{Time: e.Time.UTC(), Level: e.Level.String(), Message: clean(e.Message), Fields: make(map[string]string, len(e.Data))}
	for name, value := range e.Data {
		l.Fields[clean(name)] = clean(fmt.Sprint(value))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seq++
	l.Seq = r.seq
	r.lines = append(r.lines, l)
	r.bytes += l.size()
	for len(r.lines) > maxLines || r.bytes > maxBytes {
		r.bytes -= r.lines[0].size()
		r.lines = r.lines[1:]
	}
	close(r.more)
	r.more = make(chan struct{})
	return nil
}

func (l Line) size() int {
	n := overhead + len(l.Message)
	for name, value := range l.Fields {
		n += len(name) + len(value)
	}
	return n
}

// After returns the lines after the one with the number seq that are still there, oldest first. The next
// line closes more.
func (r *Ring) After(seq int64) (list []Line, more <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := sort.Search(len(r.lines), func(i int) bool { return r.lines[i].Seq > seq })
	return slices.Clone(r.lines[i:]), r.more
}

// password matches the password in a URL, which volumes may not have, but a message of git may quote.
var password = regexp.MustCompile(`(://[^/@:\s]*):[^/@\s]*@`)

// clean returns a text for a Line.
func clean(text string) string {
	text = origin.Clip(text, maxText)
	if strings.Contains(text, "://") {
		text = password.ReplaceAllString(text, "$1:***@")
	}
	return escape.Text(text)
}
