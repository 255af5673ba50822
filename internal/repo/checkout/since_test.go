package checkout

import (
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
