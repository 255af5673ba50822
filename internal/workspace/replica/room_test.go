package replica

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/helmdeck/repos/tests/testdisk"
)

// TestRoom: while much is written, of data or of small files and directories, a copy asks for room, and its end is that
// error. While nothing is written, it does not ask.
func TestRoom(t *testing.T) {
	onEach(t, func(t *testing.T, dir string) {
		w := newWorld(t, dir)
		errRoom := errors.New("there is no room")
		var asked atomic.Int64
		var full atomic.Bool
		room := func() error {
			asked.Add(1)
			if full.Load() {
				return errRoom
			}
			return nil
		}
		for i := range 300 {
			check(t, os.Mkdir(fmt.Sprintf("%s/d%d", w.upper, i), 0o755))
			check(t, os.WriteFile(fmt.Sprintf("%s/d%d/f", w.upper, i), nil, 0o600))
		}
		r, _, err := w.start(Options{Limits: generous, Room: room})
		check(t, err)
		if got := asked.Swap(0); got != 2 {
			t.Errorf("asked %d times for 600 entries", got)
		}
		for range 2 {
			w.finish(r)
		}
		before := asked.Swap(0)
		for i := range 600 {
			check(t, os.WriteFile(fmt.Sprintf("%s/g%d", w.upper, i), nil, 0o600))
		}
		full.Store(true)
		if _, err := r.Finish(t.Context()); !errors.Is(err, errRoom) {
			t.Errorf("Finish: %v, asked %d times before", err, before)
		}
	})
}

// TestRoomForData: a large file that must be copied is given up in the middle.
func TestRoomForData(t *testing.T) {
	w := newWorld(t, newDisk(t, testdisk.Filesystems[0].Make))
	errRoom := errors.New("there is no room")
	check(t, os.WriteFile(w.upper+"/big", bytes.Repeat([]byte("x"), 20<<20), 0o600))
	var asked atomic.Int64
	_, result, err := w.start(Options{Limits: generous, Room: func() error {
		if asked.Add(1) == 3 {
			return errRoom
		}
		return nil
	}})
	if !errors.Is(err, errRoom) || result.Copied >= 20<<20 {
		t.Errorf("%+v, %v", result, err)
	}
}

// TestLongNames: a long name counts for several entries, because it is kept in memory.
func TestLongNames(t *testing.T) {
	onEach(t, func(t *testing.T, dir string) {
		w := newWorld(t, dir)
		for i := range 10 {
			check(t, os.WriteFile(w.upper+"/"+fmt.Sprint(i)+strings.Repeat("n", 250), nil, 0o600))
		}
		limits := generous
		limits.Entries = 40
		_, _, err := w.start(Options{Limits: limits})
		check(t, err)
		check(t, os.WriteFile(w.upper+"/one", nil, 0o600))
		check(t, os.RemoveAll(w.copy))
		check(t, os.Mkdir(w.copy, 0o700))
		_, _, err = w.start(Options{Limits: limits})
		if limit, ok := errors.AsType[*LimitError](err); !ok || limit.Kind != Entries {
			t.Errorf("one more: %v", err)
		}
	})
}
