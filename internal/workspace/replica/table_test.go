package replica

import (
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/tests/testtree"
)

// TestYoungTimesAreNotTrusted checks that a ctime that was young when it was read says nothing about later changes: a
// kernel before Linux 6.13 may give the next change the same.
func TestYoungTimesAreNotTrusted(t *testing.T) {
	now := time.Unix(1000, 0)
	for age, want := range map[time.Duration]bool{settled: true, time.Hour: true, settled - 1: false, 0: false, -time.Hour: false} {
		c := now.Add(-age)
		st := unix.Statx_t{Mode: unix.S_IFREG, Ino: 5, Ctime: unix.StatxTimestamp{Sec: c.Unix(), Nsec: uint32(c.Nanosecond())}}
		var e entry
		e.record(&st, now)
		if got := e.current(&st); got != want {
			t.Errorf("%v old: current is %v, want %v", age, got, want)
		}
	}
}

// TestSameTime exchanges two directories with files of the same names, sizes and ctimes, which the exchange does not
// change.
func TestSameTime(t *testing.T) {
	onEach(t, func(t *testing.T, dir string) {
		w := newWorld(t, dir)
		a, b := w.upper+"/a", w.upper+"/b"
		check(t, os.Mkdir(a, 0o755))
		check(t, os.Mkdir(b, 0o755))
		for same := false; !same; { // the kernel's clock has ticks
			check(t, os.WriteFile(a+"/f", []byte("a"), 0o600))
			check(t, os.WriteFile(b+"/f", []byte("b"), 0o600))
			var first, second unix.Stat_t
			check(t, unix.Stat(a+"/f", &first))
			check(t, unix.Stat(b+"/f", &second))
			if same = first.Ctim == second.Ctim; !same {
				check(t, os.Remove(a+"/f")) // an inode whose ctime was asked for gets exact ones
				check(t, os.Remove(b+"/f"))
			}
		}
		r, _ := w.mustStart()
		for r.find("a").table.entries[0].ctime == 0 { // until the ctimes are old
			_, err := r.pass(t.Context(), true)
			check(t, err)
		}
		check(t, unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE))
		w.finish(r)
		if d := w.compare(false); len(d) > 0 {
			t.Error(testtree.Show(d))
		}
	})
}
