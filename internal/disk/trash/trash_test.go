package trash

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// reports collects the reports of a Trash.
type reports struct {
	mu  sync.Mutex
	all []Report
}

func (r *reports) add(rep Report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, rep)
}

func (r *reports) take() []Report {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.all
	r.all = nil
	return all
}

func open(t *testing.T, dir string, report func(Report)) *Trash {
	t.Helper()
	tr, err := Open(dir, nil, report)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// run runs the trash until stop or the end of the test.
func run(t *testing.T, tr *Trash) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); tr.Run(ctx) }()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	return stop
}

// never makes await wait until nothing is left to delete.
func never() bool { return false }

func idle(t *testing.T, tr *Trash) {
	t.Helper()
	if err := tr.await(t.Context(), never); err != nil {
		t.Fatal(err)
	}
}

func put(t *testing.T, tr *Trash, path, name string) string {
	t.Helper()
	entry, err := tr.Put(path, name)
	if err != nil {
		t.Fatal(err)
	}
	return entry
}

// tree makes a directory with a file in a directory and returns its path.
func tree(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "victim")
	if err := os.MkdirAll(filepath.Join(dir, "a"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "a", "f"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func wantNames(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	got := []string{}
	for _, e := range entries {
		got = append(got, e.Name())
	}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%q has %q, want %q", dir, got, want)
	}
}

func TestPutAndRun(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "below", "trash")
	var reps reports
	tr := open(t, dir, reps.add)
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("mode %v, %v", info, err)
	}
	victim := tree(t)
	entry := put(t, tr, victim, "ws")
	if _, err := os.Lstat(victim); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the path is still there: %v", err)
	}
	if filepath.Dir(entry) != dir || !strings.HasPrefix(filepath.Base(entry), "ws-") {
		t.Errorf("entry %q", entry)
	}
	wantNames(t, dir, filepath.Base(entry))
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	fileEntry := put(t, tr, file, strings.Repeat("n", maxName))
	run(t, tr)
	idle(t, tr)
	wantNames(t, dir)
	if got, want := reps.take(), []Report{{Entry: entry, Removed: 3}, {Entry: fileEntry, Removed: 1}}; !slices.Equal(got, want) {
		t.Errorf("reports %+v, want %+v", got, want)
	}
	// The same name again, while the trash runs.
	for range 10 {
		put(t, tr, tree(t), "ws")
	}
	idle(t, tr)
	wantNames(t, dir)
}

func TestPutRefuses(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "trash")
	tr := open(t, dir, nil)
	for _, name := range []string{"", ".", "..", "a/b", "/", strings.Repeat("n", maxName+1)} {
		victim := tree(t)
		if _, err := tr.Put(victim, name); err == nil {
			t.Errorf("Put accepted the name %q", name)
		}
		wantNames(t, victim, "a")
	}
	if _, err := tr.Put(filepath.Join(dir, "missing"), "x"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing path: %v", err)
	}
	// Idle does not wait for refused entries.
	idle(t, tr)
}

func TestOpenRefuses(t *testing.T) {
	file := filepath.Join(tree(t), "a", "f")
	if _, err := Open(file, nil, nil); err == nil {
		t.Error("Open accepted a file")
	}
}

// TestLeftovers checks that the leftovers of an earlier run are deleted.
func TestLeftovers(t *testing.T) {
	dir := t.TempDir()
	first := open(t, dir, nil)
	put(t, first, tree(t), "a")
	put(t, first, tree(t), "b")
	tr := open(t, dir, nil)
	run(t, tr)
	idle(t, tr)
	wantNames(t, dir)
}

func TestRunStops(t *testing.T) {
	dir := t.TempDir()
	tr := open(t, dir, nil)
	stop := run(t, tr)
	stop()
	entry := put(t, tr, tree(t), "ws")
	wantNames(t, dir, filepath.Base(entry))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := tr.await(ctx, never); !errors.Is(err, context.Canceled) {
		t.Errorf("idle: %v", err)
	}
	run(t, tr)
	idle(t, tr)
	wantNames(t, dir)
}

// TestRunStopsWithinEntry checks that the next run continues with an unfinished entry.
func TestRunStopsWithinEntry(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	cancelled := false
	tr := open(t, dir, func(Report) {
		if !cancelled {
			cancelled = true
			cancel()
		}
	})
	put(t, tr, tree(t), "a")
	second := put(t, tr, tree(t), "b")
	tr.Run(ctx)
	wantNames(t, dir, filepath.Base(second))
	run(t, tr)
	idle(t, tr)
	wantNames(t, dir)
}

// TestEntryVanished checks that an entry that was removed by hand is not an error.
func TestEntryVanished(t *testing.T) {
	dir := t.TempDir()
	var reps reports
	tr := open(t, dir, reps.add)
	entry := put(t, tr, tree(t), "ws")
	if err := os.RemoveAll(entry); err != nil {
		t.Fatal(err)
	}
	run(t, tr)
	idle(t, tr)
	if got, want := reps.take(), []Report{{Entry: entry}}; !slices.Equal(got, want) {
		t.Errorf("reports %+v, want %+v", got, want)
	}
}
