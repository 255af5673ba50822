package git

import (
	"bytes"
	"io"
	"os"
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

// aside is the standard error of ssh, apart from git's: a server can make ssh print what looks like git's progress, as
// long as it likes. Only its end is kept, for an error.
type aside struct {
	read, write *os.File
	end         tail
	ended       chan struct{} // closed when all was read
}

func newAside() (*aside, error) {
	read, write, err := os.Pipe()
	return &aside{read: read, write: write, end: tail{max: maxStderr}, ended: make(chan struct{})}, err
}

// toAside is appended to a command for which write is the first file.
const toAside = " 2>&3"

// listen begins to read what ssh says. It calls over if that is more than maxSaid.
func (a *aside) listen(over func()) {
	go func() {
		defer close(a.ended)
		io.Copy(io.MultiWriter(&a.end, &budget{maxSaid, over}), a.read)
	}()
}

// words returns the end of what ssh said, after listen, when no child has write any more. A nil aside has none.
func (a *aside) words() string {
	if a == nil {
		return ""
	}
	a.write.Close()
	<-a.ended
	said := a.end.String()
	if said != "" && !strings.HasSuffix(said, "\n") { // git's words follow
		said += "\n"
	}
	return said
}

// close gives the files back.
func (a *aside) close() {
	a.write.Close()
	a.read.Close()
}
