package trash

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/disk"
)

func TestNames(t *testing.T) {
	for _, size := range []*disk.Size{nil, {}, {Bytes: 1, Inodes: 2}, {Bytes: 1<<63 - 1, Inodes: 1<<63 - 1}} {
		for _, name := range []string{"ws", "a-b-i", "new\nline", strings.Repeat("n", maxName)} {
			entry := entryName(name, size)
			got, ours := parseName(entry)
			if !ours || (got == nil) != (size == nil) || got != nil && *got != *size {
				t.Errorf("%q: %v, %v, want %v", entry, got, ours, size)
			}
			if len(entry) > 255 || !strings.HasPrefix(entry, name+"-") {
				t.Errorf("entry %q of name %q", entry, name)
			}
		}
	}
	for _, entry := range []string{"x", "lost+found", "-0123456789abcdef", "x-0123456789abcde", "x-0123456789abcdeg", "x-0123456789ABCDEF", "x-0123456789abcdef.d"} {
		if _, ours := parseName(entry); ours {
			t.Errorf("%q counts as an entry", entry)
		}
	}
}

// TestForeignNames checks that foreign files are reported, and stay.
func TestForeignNames(t *testing.T) {
	dir := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(dir, "precious", "work"), 0o700))
	put(t, open(t, dir, nil), tree(t), "ours")
	var reps reports
	tr := open(t, dir, reps.add)
	run(t, tr)
	idle(t, tr)
	wantNames(t, dir, "precious")
	wantNames(t, filepath.Join(dir, "precious"), "work")
	if got := reps.take(); len(got) != 2 || got[0].Entry != filepath.Join(dir, "precious") || !errors.Is(got[0].Err, errForeign) || got[1].Err != nil {
		t.Errorf("reports %+v", got)
	}
}

func TestStats(t *testing.T) {
	dir := t.TempDir()
	tr := open(t, dir, nil)
	known := disk.Size{Bytes: 1 << 40, Inodes: 3}
	if _, err := tr.PutSized(tree(t), "sized", known); err != nil {
		t.Fatal(err)
	}
	victim := tree(t)
	found, err := disk.Measure(t.Context(), victim)
	must(t, err)
	put(t, tr, victim, "unknown")
	want := Stats{Entries: 2, Size: known, Unmeasured: 1}
	if got := tr.Stats(); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	tr = open(t, dir, nil)
	if got := tr.Stats(); got != want {
		t.Errorf("after a restart: got %+v, want %+v", got, want)
	}
	tr.measure(t.Context())
	if got, want := tr.Stats(), (Stats{Entries: 2, Size: known.Add(found)}); got != want {
		t.Errorf("measured: got %+v, want %+v", got, want)
	}
	// Three of four inodes are deleted.
	e := tr.queue[0]
	e.size, e.work = &disk.Size{Bytes: 1000, Inodes: 4}, &remover{}
	e.work.removed.Store(3)
	if got, want := e.left(), (disk.Size{Bytes: 250, Inodes: 1}); got != want {
		t.Errorf("left %+v, want %+v", got, want)
	}
	run(t, tr)
	idle(t, tr)
	if got := tr.Stats(); got != (Stats{}) {
		t.Errorf("at the end: %+v", got)
	}
}

// TestPriority checks that an entry is deleted at low priority until Hurry finds too little
// room.
func TestPriority(t *testing.T) {
	priority := func() int {
		p, err := unix.Getpriority(unix.PRIO_PROCESS, 0) // of this thread
		must(t, err)
		return p
	}
	ordinary := priority()
	for _, tt := range []struct {
		name    string
		hurryAt int // the call of some
		want    []bool
	}{
		{"no hurry", -1, []bool{true, true, true}},
		{"from the start", 0, []bool{false, false, false}},
		{"in between", 1, []bool{true, false, false}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tr := open(t, t.TempDir(), nil)
			victim := tree(t)
			wide(t, victim, 3*someFiles)
			var low []bool
			e := &entry{path: victim, work: &remover{}}
			e.work.some = func() {
				low = append(low, priority() < ordinary)
				if err := tr.Hurry(t.Context(), func() bool { return true }); err != nil {
					t.Error(err)
				}
				if len(low) == tt.hurryAt {
					tr.hurry(1)
				}
			}
			if tt.hurryAt == 0 {
				tr.hurry(1)
			}
			disk.Nice(niceness, func() {
				if got, want := tr.remove(t.Context(), e), (Report{Removed: 3*someFiles + 3}); got != want {
					t.Errorf("got %+v, want %+v", got, want)
				}
			})
			if !slices.Equal(low, tt.want) {
				t.Errorf("at low priority: %v, want %v", low, tt.want)
			}
		})
	}
}

// TestHurry checks that Hurry makes a worker delete that would otherwise rest for ever.
func TestHurry(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	dir := t.TempDir()
	tr := open(t, dir, nil)
	tr.rest = 1 << 40
	tr.hurry(0)
	for range 5 {
		victim := tree(t)
		wide(t, victim, 4000)
		bushy(t, victim, 500)
		put(t, tr, victim, "big")
	}
	run(t, tr)
	ctx, cancel := context.WithCancel(t.Context())
	if err := tr.Hurry(ctx, func() bool { cancel(); return false }); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
	if err := tr.Hurry(t.Context(), func() bool { return true }); err != nil {
		t.Error(err)
	}
	asked := 0
	if err := tr.Hurry(t.Context(), func() bool { asked++; return tr.Stats().Entries < 3 }); err != nil || asked == 0 || tr.Stats().Entries > 2 {
		t.Errorf("%v; asked %d times, %d entries are left", err, asked, tr.Stats().Entries)
	}
	if err := tr.Hurry(t.Context(), func() bool { return false }); err != nil || tr.Stats().Entries != 0 {
		t.Errorf("%v; %d entries are left", err, tr.Stats().Entries)
	}
	wantNames(t, dir)
}
