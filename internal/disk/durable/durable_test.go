package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

var errInjected = errors.New("injected")

// atStep calls f at each step, with the steps so far, until the test ends.
func atStep(t *testing.T, f func(steps []string) error) {
	t.Helper()
	var steps []string
	step = func(op string) error {
		steps = append(steps, op)
		return f(steps)
	}
	t.Cleanup(func() { step = func(string) error { return nil } })
}

// crashing runs f, which panics with errInjected where the process would die.
func crashing(t *testing.T, f func() error) (crashed bool) {
	t.Helper()
	defer func() {
		if p := recover(); p == errInjected {
			crashed = true
		} else if p != nil {
			panic(p)
		}
	}()
	if err := f(); err != nil {
		t.Fatal(err)
	}
	return false
}

func TestWriteFile(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o077))
	path := filepath.Join(t.TempDir(), "f")
	var got []string
	atStep(t, func(steps []string) error { got = steps; return nil })
	for _, tt := range []struct {
		data string
		perm fs.FileMode
	}{{"one", 0o644}, {"", 0o600}, {"three", 0o755}} {
		if err := WriteFile(path, []byte(tt.data), tt.perm); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if data, err := os.ReadFile(path); err != nil || string(data) != tt.data || info.Mode() != tt.perm {
			t.Errorf("got %q %v %v, want %q %v", data, info.Mode(), err, tt.data, tt.perm)
		}
	}
	if want := []string{"create", "write", "sync", "rename", "syncdir"}; !slices.Equal(got[:5], want) {
		t.Errorf("steps %v, want %v", got[:5], want)
	}
	wantEntries(t, filepath.Dir(path), "f")
}

// TestWriteFileInterrupted checks that the file is old or new at whatever step the process
// dies or the disk fails, and that all leftovers have temporary names.
func TestWriteFileInterrupted(t *testing.T) {
	steps := []string{"create", "write", "sync", "rename", "syncdir"}
	for i, at := range steps {
		for _, crash := range []bool{true, false} {
			name := at + " fails"
			if crash {
				name = "crash before " + at
			}
			t.Run(name, func(t *testing.T) {
				dir := t.TempDir()
				path := filepath.Join(dir, "f")
				if err := WriteFile(path, []byte("old"), 0o600); err != nil {
					t.Fatal(err)
				}
				atStep(t, func(done []string) error {
					if len(done)-1 != i {
						return nil
					}
					if crash {
						panic(errInjected)
					}
					return errInjected
				})
				var err error
				crashed := crashing(t, func() error {
					err = WriteFile(path, []byte("new"), 0o600)
					return nil
				})
				if crashed != crash || !crash && !errors.Is(err, errInjected) {
					t.Fatalf("crashed %v, error %v", crashed, err)
				}
				want := "old"
				if at == "syncdir" {
					want = "new"
				}
				if got, err := os.ReadFile(path); err != nil || string(got) != want {
					t.Errorf("got %q, %v, want %q", got, err, want)
				}
				entries, err := os.ReadDir(dir)
				if err != nil {
					t.Fatal(err)
				}
				for _, e := range entries {
					if e.Name() != "f" && (!crash || !IsTemp(e.Name())) {
						t.Errorf("left %q", e.Name())
					}
				}
			})
		}
	}
}

func TestRename(t *testing.T) {
	tests := []struct {
		name    string
		prepare func(dir string) error
		want    error
	}{
		{"new name", func(dir string) error { return nil }, nil},
		{"empty directory", func(dir string) error { return os.Mkdir(filepath.Join(dir, "to", "new"), 0o700) }, fs.ErrExist},
		{"full directory", func(dir string) error { return os.MkdirAll(filepath.Join(dir, "to", "new", "x"), 0o700) }, fs.ErrExist},
		{"file", func(dir string) error { return os.WriteFile(filepath.Join(dir, "to", "new"), nil, 0o600) }, unix.ENOTDIR},
		{"no parent", func(dir string) error { return os.Remove(filepath.Join(dir, "to")) }, fs.ErrNotExist},
	}
	for _, rename := range []struct {
		name  string
		f     func(old, new string) error
		steps []string
	}{{"durable", Rename, []string{"rename", "syncdir", "syncdir"}}, {"volatile", RenameVolatile, []string{"rename"}}} {
		for _, tt := range tests {
			t.Run(rename.name+"/"+tt.name, func(t *testing.T) {
				dir := t.TempDir()
				old, new := filepath.Join(dir, TempPrefix+"1"), filepath.Join(dir, "to", "new")
				if err := errors.Join(os.MkdirAll(filepath.Join(old, "inside"), 0o700), os.Mkdir(filepath.Dir(new), 0o700), tt.prepare(dir)); err != nil {
					t.Fatal(err)
				}
				var steps []string
				atStep(t, func(s []string) error { steps = s; return nil })
				err := rename.f(old, new)
				if tt.want != nil {
					if !errors.Is(err, tt.want) {
						t.Errorf("got %v, want %v", err, tt.want)
					}
					wantEntries(t, old, "inside")
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				wantEntries(t, new, "inside")
				if !slices.Equal(steps, rename.steps) {
					t.Errorf("steps %v, want %v", steps, rename.steps)
				}
				if _, err := os.Lstat(old); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("the old name: %v", err)
				}
			})
		}
	}
}

func TestMkdirAll(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o077))
	dir := t.TempDir()
	var steps []string
	atStep(t, func(s []string) error { steps = s; return nil })
	path := filepath.Join(dir, "a", "b", "c")
	for range 2 {
		if err := MkdirAll(path, 0o755); err != nil {
			t.Fatal(err)
		}
		if want := []string{"mkdir", "syncdir", "mkdir", "syncdir", "mkdir", "syncdir"}; !slices.Equal(steps, want) {
			t.Errorf("steps %v, want %v", steps, want)
		}
	}
	for _, p := range []string{path, filepath.Dir(path)} {
		if info, err := os.Stat(p); err != nil || info.Mode().Perm() != 0o755 {
			t.Errorf("%q: %v, %v", p, info, err)
		}
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{file, filepath.Join(file, "below")} {
		if err := MkdirAll(p, 0o755); !errors.Is(err, unix.ENOTDIR) {
			t.Errorf("%q: got %v, want %v", p, err, unix.ENOTDIR)
		}
	}
}

func TestMkdirVolatile(t *testing.T) {
	dir := t.TempDir()
	var steps []string
	atStep(t, func(s []string) error { steps = s; return nil })
	path := filepath.Join(dir, "a", "b")
	if err := MkdirVolatile(path, 0o755); err != nil {
		t.Fatal(err)
	}
	if want := []string{"mkdir", "mkdir"}; !slices.Equal(steps, want) {
		t.Errorf("steps %v, want %v", steps, want)
	}
	wantEntries(t, filepath.Dir(path), "b")
}

func TestSyncTree(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a", "f")
	if err := errors.Join(os.Mkdir(filepath.Dir(file), 0o755), os.WriteFile(file, []byte("x"), 0o400),
		os.Symlink("nowhere", filepath.Join(dir, "link")), unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]error{dir: nil, file: nil, dir + "x": fs.ErrNotExist} {
		if err := SyncTree(path); !errors.Is(err, want) {
			t.Errorf("%q: got %v, want %v", path, err, want)
		}
	}
}

func TestMkdirAllConcurrently(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "b", "c", "d")
	var wg sync.WaitGroup
	errs := make(chan error, 8)
	for range cap(errs) {
		wg.Go(func() { errs <- MkdirAll(path, 0o700) })
	}
	wg.Wait()
	for range cap(errs) {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

func TestSyncFS(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]error{dir: nil, fifo: unix.ENOTDIR, dir + "x": fs.ErrNotExist} {
		if err := SyncFS(path); !errors.Is(err, want) {
			t.Errorf("%q: got %v, want %v", path, err, want)
		}
	}
}

func TestIsTemp(t *testing.T) {
	for name, want := range map[string]bool{TempPrefix + "123": true, "tmp-1": false, "a" + TempPrefix: false, ".git": false, "": false} {
		if got := IsTemp(name); got != want {
			t.Errorf("%q: got %v, want %v", name, got, want)
		}
	}
}

func wantEntries(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q has %q, want %q", dir, got, want)
	}
}
