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

// reports collects what a Trash reports.
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
	tr, err := Open(dir, report)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// run runs the trash until stop is called, or the test ends.
func run(t *testing.T, tr *Trash) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); tr.Run(ctx) }()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	return stop
}

func idle(t *testing.T, tr *Trash) {
	t.Helper()
	if err := tr.Idle(t.Context()); err != nil {
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
	// The same name, again and while it runs.
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
			t.Errorf("name %q was taken", name)
		}
		wantNames(t, victim, "a")
	}
	if _, err := tr.Put(filepath.Join(dir, "missing"), "x"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing path: %v", err)
	}
	// Whatever was refused is not waited for.
	idle(t, tr)
}

func TestOpenRefuses(t *testing.T) {
	file := filepath.Join(tree(t), "a", "f")
	if _, err := Open(file, nil); err == nil {
		t.Error("a file was taken")
	}
}

// What an earlier run left is deleted.
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
	if err := tr.Idle(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("idle: %v", err)
	}
	run(t, tr)
	idle(t, tr)
	wantNames(t, dir)
}

// A run that ends within an entry is gone on with.
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

// An entry that somebody removed by hand is done with.
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
