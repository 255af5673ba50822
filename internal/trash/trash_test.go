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

func open(t *testing.T, dir string, opts Options) *Trash {
	t.Helper()
	tr, err := Open(dir, opts)
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
	tr := open(t, dir, Options{Report: reps.add})
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
	tr := open(t, dir, Options{})
	for _, name := range []string{"", ".", "..", "a/b", "/", strings.Repeat("n", maxName+1)} {
		victim := tree(t)
		if _, err := tr.PutAfter(victim, name, func() { t.Error("before was called") }); err == nil {
			t.Errorf("name %q was taken", name)
		}
		wantNames(t, victim, "a")
	}
	if _, err := tr.PutAfter(filepath.Join(dir, "missing"), "x", func() { t.Error("before was called") }); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing path: %v", err)
	}
	// Whatever was refused is not waited for.
	idle(t, tr)
}

func TestOpenRefuses(t *testing.T) {
	file := filepath.Join(tree(t), "a", "f")
	if _, err := Open(file, Options{}); err == nil {
		t.Error("a file was taken")
	}
}

// What an earlier run left is deleted, and is asked about only if it was not
// begun.
func TestLeftovers(t *testing.T) {
	dir := t.TempDir()
	var asked []string
	opts := Options{Busy: func(entry string) (bool, error) {
		asked = append(asked, filepath.Base(entry))
		return false, nil
	}}
	first := open(t, dir, opts)
	fresh := put(t, first, tree(t), "fresh")
	begun := put(t, first, tree(t), "begun")
	if err := os.Rename(begun, begun+checkedSuffix); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, checkedSuffix), 0o700); err != nil {
		t.Fatal(err)
	}
	tr := open(t, dir, opts)
	run(t, tr)
	idle(t, tr)
	wantNames(t, dir)
	if want := []string{checkedSuffix, filepath.Base(fresh)}; !slices.Equal(asked, want) {
		t.Errorf("asked about %q, want %q", asked, want)
	}
}

func TestRunStops(t *testing.T) {
	dir := t.TempDir()
	tr := open(t, dir, Options{})
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

// A run that ends within an entry is gone on with, without a second check.
func TestRunStopsWithinEntry(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	asked := 0
	tr := open(t, dir, Options{Busy: func(string) (bool, error) {
		asked++
		cancel()
		return false, nil
	}})
	entry := put(t, tr, tree(t), "ws")
	tr.Run(ctx)
	wantNames(t, dir, filepath.Base(entry)+checkedSuffix)
	run(t, tr)
	idle(t, tr)
	wantNames(t, dir)
	if asked != 1 {
		t.Errorf("asked %d times", asked)
	}
}

// An entry that somebody removed by hand is done with.
func TestEntryVanished(t *testing.T) {
	dir := t.TempDir()
	var reps reports
	tr := open(t, dir, Options{Report: reps.add, Busy: func(string) (bool, error) { return false, errors.New("asked") }})
	if err := os.RemoveAll(put(t, tr, tree(t), "ws")); err != nil {
		t.Fatal(err)
	}
	run(t, tr)
	idle(t, tr)
	if got := reps.take(); len(got) != 0 {
		t.Errorf("reports %+v", got)
	}
}

// before comes first, off the caller's path, one at a time, and Idle waits
// for it; it needs no Run, and other entries do not wait for it.
func TestPutAfter(t *testing.T) {
	dir := t.TempDir()
	var mu sync.Mutex
	var events []string
	event := func(e string) {
		mu.Lock()
		defer mu.Unlock()
		events = append(events, e)
	}
	tr := open(t, dir, Options{
		Busy:   func(entry string) (bool, error) { event("check " + filepath.Base(entry)[:1]); return false, nil },
		Report: func(r Report) { event("gone " + filepath.Base(r.Entry)[:1]) },
	})
	release, entered := make(chan struct{}), make(chan struct{})
	a, err := tr.PutAfter(tree(t), "a", func() { close(entered); <-release; event("before a") })
	if err != nil {
		t.Fatal(err)
	}
	<-entered
	if _, err := tr.PutAfter(tree(t), "b", func() { event("before b") }); err != nil {
		t.Fatal(err)
	}
	run(t, tr)
	entry := put(t, tr, tree(t), "c")
	for gone := false; !gone; {
		_, err := os.Lstat(entry + checkedSuffix)
		_, err2 := os.Lstat(entry)
		gone = errors.Is(err, fs.ErrNotExist) && errors.Is(err2, fs.ErrNotExist)
	}
	if _, err := os.Lstat(a); err != nil {
		t.Errorf("deleted too early: %v", err)
	}
	close(release)
	idle(t, tr)
	wantNames(t, dir)
	index := func(e string) int { return slices.Index(events, e) }
	for _, order := range [][]string{{"before a", "check a", "gone a"}, {"before a", "before b", "check b", "gone b"}, {"gone c", "gone a"}} {
		for i := range order[1:] {
			if index(order[i]) < 0 || index(order[i]) > index(order[i+1]) {
				t.Errorf("%q is not before %q in %q", order[i], order[i+1], events)
			}
		}
	}
}
