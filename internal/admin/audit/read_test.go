package audit

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/helmdeck/repos/api"
)

// TestPartialWrite checks that a reader that follows gets nothing of a write that fails, and so
// misses no line that is written in its place.
func TestPartialWrite(t *testing.T) {
	c := testConfig(t.TempDir())
	l := open(t, c)
	follow(t, l, api.AuditFilter{}, 1)
	path := filepath.Join(c.Dir, currentName)
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	// As append leaves it while a write fails: lines that are complete, and one that is not.
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	failing := appendLine(nil, api.AuditRecord{Seq: 2, Action: "mount", Text: strings.Repeat("x", 1000)})
	if _, err := f.Write(append(failing, failing[:10]...)); err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var texts []string
	done := errors.New("done")
	err = l.Read(t.Context(), api.AuditFilter{Action: "mount", Follow: true}, func(line []byte) error {
		if texts = append(texts, record(t, line).Text); texts[len(texts)-1] == "last" {
			return done
		}
		return nil
	}, func() error { // the reader has read all: the write has failed, and others follow
		if texts == nil {
			texts = []string{}
			if err := os.Truncate(path, info.Size()); err != nil {
				return err
			}
			l.Record(t.Context(), api.AuditRecord{Action: "mount", Text: "first"}, nil)
			l.Record(t.Context(), api.AuditRecord{Action: "mount", Text: "last"}, nil)
		}
		return nil
	})
	if got := fmt.Sprint(texts); err != done || got != "[first last]" {
		t.Errorf("got %.60s, %v", got, err)
	}
}

// TestFilterOddNames checks that a filter finds names that a line has in an escaped form.
func TestFilterOddNames(t *testing.T) {
	l := open(t, testConfig(t.TempDir()))
	names := []string{"a b", `q"uote`, `back\\slash`, "<tag>&", "ünïcode", "tab\t", "\u202eright", "\U0001f600", "\x7f", "\xff"}
	for _, name := range names {
		l.Record(t.Context(), api.AuditRecord{Action: "mount", Volume: name}, nil)
	}
	all := follow(t, l, api.AuditFilter{}, len(names)+1)
	for i, name := range names {
		var got []int64
		err := l.Read(t.Context(), api.AuditFilter{Volume: name}, func(line []byte) error {
			got = append(got, record(t, line).Seq)
			return nil
		}, nil)
		if want := all[i+1].Seq; err != nil || len(got) != 1 || got[0] != want {
			t.Errorf("%q: records %d, %v, want %d", name, got, err, want)
		}
	}
}

// BenchmarkFilteredRead reads 100,000 records, of which a filter selects ten.
func BenchmarkFilteredRead(b *testing.B) {
	dir := b.TempDir()
	var data []byte
	for i := range 100_000 {
		data = appendLine(data, api.AuditRecord{
			Seq: int64(i + 1), Action: "mount", Subject: fmt.Sprint("s", i%7), Volume: fmt.Sprint("v", i%10_000), Repo: "https://git.example.com/group/app",
			Clone: "s/0123456789abcdef", Lease: strings.Repeat("0", 64), Result: "ok", Actor: Own,
		})
	}
	path := filepath.Join(dir, currentName)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		f, err := os.Open(path)
		if err != nil {
			b.Fatal(err)
		}
		filter, n := api.AuditFilter{Volume: "v77"}, 0
		r := &reader{filter: filter, texts: texts(filter), file: f, emit: func([]byte) error { n++; return nil }}
		if err := r.readLines(b.Context(), int64(len(data))); err != nil || n != 10 {
			b.Fatalf("%d records, %v", n, err)
		}
		f.Close()
	}
}
