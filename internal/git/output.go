package git

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/helmdeck/repos/internal/disk"
)

// A filesystem with less than fullBelow free bytes counts as full.
const fullBelow = 1 << 20

// Full reports whether one of the directories has no room for data or files.
func Full(dirs []string) bool { return mayHaveFilled(dirs, 0) }

// mayHaveFilled reports whether a command that wrote that many bytes may have filled the
// filesystem of one of the directories: it is full now, or was full with these bytes, which
// git may have deleted since.
func mayHaveFilled(dirs []string, wrote int64) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool {
		s, err := disk.SpaceOf(dir)
		return err == nil && (s.Free.Bytes < max(fullBelow, 2*wrote) || s.Total.Inodes > 0 && s.Free.Inodes == 0)
	})
}

// SilentError is the error of a child, or a request, that sent nothing for that long.
type SilentError time.Duration

func (s SilentError) Error() string { return fmt.Sprintf("nothing came for %v", time.Duration(s)) }

// alarm resets a timer with each write.
type alarm struct {
	timer *time.Timer
	after time.Duration

	mu     sync.Mutex
	paused bool
}

func (a *alarm) Write(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.paused {
		a.timer.Reset(a.after)
	}
	return len(p), nil
}

// pause stops the timer until resume.
func (a *alarm) pause() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.paused = true
	a.timer.Stop()
}

func (a *alarm) resume() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.paused = false
	a.timer.Reset(a.after)
}

// limited keeps at most max bytes, and sets cut if there are more. Its writes never fail,
// because a child would report EPIPE instead of its own error.
type limited struct {
	buf bytes.Buffer
	max int
	cut bool
}

func (l *limited) Write(p []byte) (int, error) {
	if room := l.max - l.buf.Len(); len(p) > room {
		l.cut = true
		l.buf.Write(p[:room])
		return len(p), nil
	}
	return l.buf.Write(p)
}

// tail keeps the last max bytes.
type tail struct {
	buf []byte
	max int
}

func (t *tail) Write(p []byte) (int, error) {
	t.buf = append(t.buf, p...)
	if over := len(t.buf) - t.max; over > 0 {
		t.buf = append(t.buf[:0], t.buf[over:]...)
	}
	return len(p), nil
}

func (t *tail) String() string { return string(t.buf) }

// lines calls f for each line. git's progress lines end with \r.
type lines struct {
	f   func(string)
	buf []byte
}

func (l *lines) Write(p []byte) (int, error) {
	l.buf = append(l.buf, p...)
	for {
		i := bytes.IndexAny(l.buf, "\r\n")
		if i < 0 {
			if len(l.buf) > maxStderr {
				l.buf = l.buf[:0]
			}
			return len(p), nil
		}
		if line := strings.TrimSpace(string(l.buf[:i])); line != "" {
			l.f(line)
		}
		l.buf = l.buf[i+1:]
	}
}
