package git

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// fullBelow is how many bytes a filesystem has left that is as good as full.
const fullBelow = 1 << 20

// full reports whether one of the directories has no room for bytes or files.
func full(dirs []string) bool {
	for _, dir := range dirs {
		var st unix.Statfs_t
		if unix.Statfs(dir, &st) == nil && (st.Bavail*uint64(st.Bsize) < fullBelow || st.Files > 0 && st.Ffree == 0) {
			return true
		}
	}
	return false
}

// silentError is why a child was ended that said nothing for so long.
type silentError time.Duration

func (s silentError) Error() string { return fmt.Sprintf("nothing came for %v", time.Duration(s)) }

// alarm puts a timer off with each write.
type alarm struct {
	timer *time.Timer
	after time.Duration
}

func (a alarm) Write(p []byte) (int, error) {
	a.timer.Reset(a.after)
	return len(p), nil
}

// limited keeps at most max bytes and remembers that there were more. It never
// fails a write: a child that is cut off by EPIPE would report that instead of
// its own trouble.
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

// lines calls f for each line, which git's progress ends with \r.
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
