package journal

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"unicode"

	"github.com/sirupsen/logrus"
)

func logger() (*logrus.Logger, *Ring) {
	log, r := logrus.New(), New()
	log.SetOutput(io.Discard)
	log.AddHook(r)
	return log, r
}

// TestLines checks the lines, and that a reader learns of the next one.
func TestLines(t *testing.T) {
	log, r := logger()
	log.WithError(errors.New("it broke")).WithFields(logrus.Fields{"volume": "v", "took": 5}).Warn("mount: failed")
	log.Debug("not logged")
	lines, more := r.After(0)
	if len(lines) != 1 || lines[0].Level != "warning" || lines[0].Message != "mount: failed" || fmt.Sprint(lines[0].Fields) != "map[error:it broke took:5 volume:v]" {
		t.Fatalf("got %+v", lines)
	}
	select {
	case <-more:
		t.Fatal("more is closed")
	default:
	}
	log.Info("next")
	<-more
	if next, _ := r.After(lines[0].Seq); len(next) != 1 || next[0].Message != "next" || next[0].Seq != lines[0].Seq+1 {
		t.Errorf("got %+v", next)
	}
}

// TestHostileText checks that a line has neither control characters nor passwords of URLs.
func TestHostileText(t *testing.T) {
	log, r := logger()
	text := "fatal: unable to access 'https://me:hunter2@h/x'\n\x1b[2J\u202e\u009b\xff " + strings.Repeat("é", 1<<20)
	log.WithField("a\nb", text).Error(text)
	lines, _ := r.After(0)
	for _, got := range []string{lines[0].Message, lines[0].Fields[`a\u000ab`]} {
		if !strings.HasPrefix(got, `fatal: unable to access 'https://me:***@h/x'\u000a\u001b[2J\u202e\u009b? é`) || len(got) > 2*maxText {
			t.Errorf("got %d bytes: %.100q", len(got), got)
		}
		if strings.IndexFunc(got, unicode.IsControl) >= 0 {
			t.Errorf("control characters in %.100q", got)
		}
	}
}

// TestBounded checks that many lines, and large ones, take a bounded amount of memory.
func TestBounded(t *testing.T) {
	log, r := logger()
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range maxLines {
				log.Info("small")
			}
		})
	}
	all.Wait()
	if lines, _ := r.After(0); len(lines) > maxLines || len(lines) < maxLines/2 || lines[len(lines)-1].Seq != 4*maxLines {
		t.Errorf("%d lines to %d", len(lines), lines[len(lines)-1].Seq)
	}
	for range maxBytes / maxText {
		log.WithField("f", strings.Repeat("x", maxText)).Info(strings.Repeat("y", maxText))
	}
	lines, _ := r.After(0)
	size := 0
	for _, l := range lines {
		size += l.size()
	}
	if size > maxBytes || size < maxBytes/2 || size != r.bytes {
		t.Errorf("%d bytes, counted as %d, in %d lines", size, r.bytes, len(lines))
	}
}
