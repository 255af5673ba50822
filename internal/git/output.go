package git

import (
	"bytes"
	"strings"
	"sync"
	"time"
)

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

// budget calls over when more than left bytes are written.
type budget struct {
	left int
	over func()
}

func (b *budget) Write(p []byte) (int, error) {
	if b.left >= 0 && b.left < len(p) {
		b.over()
	}
	b.left -= len(p)
	return len(p), nil
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
