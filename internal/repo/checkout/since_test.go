package checkout

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/git/gitindex"
)

// TestStampRule checks which time a file gets, for something that was built at 100 s.
func TestStampRule(t *testing.T) {
	const s = int64(1e9)
	for _, tt := range []struct {
		name         string
		same, edited bool
		was, now     int64 // the file's times in ns
		want         int64 // 0: it keeps its time
	}{
		{"the same, equally old", true, false, 50 * s, 50 * s, 0},
		{"the same, newer", true, false, 50 * s, 60 * s, 0},
		{"the same, older", true, false, 50 * s, 40 * s, 50 * s},
		{"the same, older by a nanosecond", true, false, 50*s + 1, 50 * s, 50*s + 1},
		{"the same, but edited", true, true, 50 * s, 50 * s, fresh},
		{"another, older", false, false, 0, 40 * s, fresh},
		{"another, from during the build", false, false, 0, 99 * s, fresh},
		{"another, from the second of its end", false, false, 0, 100*s + s - 1, fresh},
		{"another, later", false, false, 0, 101 * s, 0},
		{"edited, and checked out later", true, true, 50 * s, 101 * s, 0},
	} {
		entry := func(ns int64) gitindex.Entry {
			ix := gitindex.New(20)
			if err := ix.Add("100644 1234567890123456789012345678901234567890 0", "dir/file"); err != nil {
				t.Fatal(err)
			}
			ix.Entries[0].SetStat(&unix.Stat_t{Mtim: unix.NsecToTimespec(ns)})
			return ix.Entries[0]
		}
		st := &stamps{times: make(map[string]int64), edited: map[string]bool{"dir": tt.edited, "other": true}, base: Base{Built: 100}}
		st.add("dir/file", entry(tt.now), entry(tt.was), tt.same)
		if got := st.times["dir/file"]; got != tt.want {
			t.Errorf("%s: time %d, want %d", tt.name, got, tt.want)
		}
	}
}

// TestStampsOfSeveralUpdates checks that a generated file that was updated after its source gets a new time with it, and
// none if the source needs none.
func TestStampsOfSeveralUpdates(t *testing.T) {
	t.Parallel()
	const s = int64(1e9)
	type file struct {
		id string
		at int64
	}
	write := func(path string, files ...file) {
		t.Helper()
		ix := gitindex.New(20)
		for i, f := range files {
			if err := ix.Add("100644 "+strings.Repeat(f.id, 40)+" 0", []string{"grammar.y", "parser.c", "same"}[i]); err != nil {
				t.Fatal(err)
			}
			ix.Entries[i].SetStat(&unix.Stat_t{Mtim: unix.NsecToTimespec(f.at)})
		}
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(ix.Encode(f), f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	tree, base := t.TempDir(), t.TempDir()
	if err := os.Mkdir(filepath.Join(tree, ".git"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(filepath.Join(tree, ".git", IndexFile), file{"2", 60 * s}, file{"2", 110 * s}, file{"1", 50 * s})
	write(filepath.Join(base, IndexFile), file{"1", 50 * s}, file{"1", 50 * s}, file{"1", 50 * s})
	c := Spec{Commit: strings.Repeat("1", 40), Below: []string{tree}}
	for built, want := range map[int64][]Stamp{
		59:  nil,
		100: {{Path: "grammar.y"}, {Path: "parser.c"}},
		110: {{Path: "grammar.y"}, {Path: "parser.c"}},
	} {
		if got, err := c.stamps([]Base{{Dir: base, Built: built}}); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("built at %d s: %v, %v, want %v", built, got, err, want)
		}
	}
}
