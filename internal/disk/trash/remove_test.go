package trash

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// deep makes a chain of n directories below dir, each with a file, like a program that descends
// with chdir.
func deep(t *testing.T, dir string, n int) {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	name := strings.Repeat("d", 100)
	for range n {
		if err := unix.Mkdirat(fd, name, 0o700); err != nil {
			t.Fatal(err)
		}
		f, err := unix.Openat(fd, "file", unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		unix.Close(f)
		next, err := unix.Openat(fd, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		unix.Close(fd)
		fd = next
	}
	unix.Close(fd)
}

func wide(t *testing.T, dir string, n int) {
	t.Helper()
	for i := range n {
		must(t, unix.Mknod(filepath.Join(dir, fmt.Sprint(i)), unix.S_IFREG|0o600, 0))
	}
}

func bushy(t *testing.T, dir string, n int) {
	t.Helper()
	for i := range n {
		d := filepath.Join(dir, "x", fmt.Sprint(i), "y", "z")
		must(t, os.MkdirAll(d, 0o700), os.WriteFile(filepath.Join(d, "f"), nil, 0o600))
	}
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// memory returns a directory on a tmpfs, because large trees take too long to make on a disk.
func memory(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	mount(t, dir, "tmpfs", "tmpfs", 0)
	return dir
}

func TestRemove(t *testing.T) {
	tests := []struct {
		name  string
		dir   func(t *testing.T) string // nil: t.TempDir
		make  func(t *testing.T, dir, outside string)
		count int // files and directories, the top included
	}{
		{"empty", nil, func(t *testing.T, dir, outside string) {}, 1},
		// Deeper than the limits of descriptors and path length.
		{"deep", memory, func(t *testing.T, dir, outside string) { deep(t, dir, 10000) }, 20001},
		{"deep on disk", nil, func(t *testing.T, dir, outside string) {
			for _, d := range []string{"a", "a/b", "c"} {
				must(t, os.Mkdir(filepath.Join(dir, d), 0o700))
				deep(t, filepath.Join(dir, d), 100)
			}
		}, 1 + 3*201},
		{"wide", memory, func(t *testing.T, dir, outside string) { wide(t, dir, 100000) }, 100001},
		// More than one read of the directory.
		{"wide on disk", nil, func(t *testing.T, dir, outside string) { wide(t, dir, 4000) }, 4001},
		{"bushy", memory, func(t *testing.T, dir, outside string) { bushy(t, dir, 20000) }, 2 + 20000*4},
		{"bushy on disk", nil, func(t *testing.T, dir, outside string) { bushy(t, dir, 700) }, 2 + 700*4},
		{"no permissions", nil, func(t *testing.T, dir, outside string) {
			d := filepath.Join(dir, "a", "b", "c")
			must(t, os.MkdirAll(d, 0o700), os.WriteFile(filepath.Join(d, "f"), nil, 0))
			for d != dir {
				must(t, os.Chmod(d, 0), os.Chown(d, 1234, 1234))
				d = filepath.Dir(d)
			}
			must(t, os.Chmod(dir, 0))
		}, 5},
		{"special files", nil, func(t *testing.T, dir, outside string) {
			for _, d := range []string{"", "a", "a/b"} {
				d := filepath.Join(dir, d)
				must(t, os.MkdirAll(d, 0o700))
				must(t,
					unix.Mkfifo(filepath.Join(d, "fifo"), 0o600),
					unix.Mknod(filepath.Join(d, "socket"), unix.S_IFSOCK|0o600, 0),
					unix.Mknod(filepath.Join(d, "whiteout"), unix.S_IFCHR, 0),
					unix.Mknod(filepath.Join(d, "tty"), unix.S_IFCHR|0o666, int(unix.Mkdev(5, 0))),
					unix.Mknod(filepath.Join(d, "disk"), unix.S_IFBLK|0o666, int(unix.Mkdev(7, 200))),
				)
			}
		}, 3 + 15},
		{"links", nil, func(t *testing.T, dir, outside string) {
			for _, d := range []string{"", "a", "a/b"} {
				d := filepath.Join(dir, d)
				must(t, os.MkdirAll(d, 0o700))
				must(t,
					os.Symlink(outside, filepath.Join(d, "dir")),
					os.Symlink(filepath.Join(outside, "keep"), filepath.Join(d, "file")),
					os.Symlink("/", filepath.Join(d, "root")),
					os.Symlink("..", filepath.Join(d, "up")),
					os.Symlink("self", filepath.Join(d, "self")),
					os.Link(filepath.Join(outside, "keep"), filepath.Join(d, "hard")),
				)
			}
		}, 3 + 18},
		{"names", nil, func(t *testing.T, dir, outside string) {
			for _, n := range []string{"new\nline", "-rf", "*", "\xff\xfe", " ", "...", ".hoisted-0", strings.Repeat("n", 255)} {
				must(t, os.MkdirAll(filepath.Join(dir, "a", n, "b\n"), 0o700))
			}
		}, 2 + 16},
		{"opaque and overlay attributes", nil, func(t *testing.T, dir, outside string) {
			d := filepath.Join(dir, "upper", "d")
			must(t, os.MkdirAll(d, 0o700))
			must(t, unix.Setxattr(d, "trusted.overlay.opaque", []byte("y"), 0))
		}, 3},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.dir == nil {
				tt.dir = (*testing.T).TempDir
			}
			base := tt.dir(t)
			dir, outside := filepath.Join(base, "dir"), filepath.Join(base, "outside")
			must(t, os.Mkdir(dir, 0o700), os.Mkdir(outside, 0o700), os.WriteFile(filepath.Join(outside, "keep"), []byte("kept"), 0o600))
			tt.make(t, dir, outside)
			limitDescriptors(t)
			if got, want := new(remover).remove(t.Context(), dir, nil), (Report{Removed: tt.count}); got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
			wantNames(t, base, "outside")
			wantNames(t, outside, "keep")
			if got, err := os.ReadFile(filepath.Join(outside, "keep")); err != nil || string(got) != "kept" {
				t.Errorf("outside: %q, %v", got, err)
			}
		})
	}
}

// limitDescriptors limits the test to a few more descriptors than it has open.
func limitDescriptors(t *testing.T) {
	t.Helper()
	open, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	var old unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &old))
	limit := old
	limit.Cur = uint64(len(open) + 8)
	must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit))
	t.Cleanup(func() { must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &old)) })
}

// TestRemoveSkips checks that files that can't be deleted are counted, and all others are
// deleted.
func TestRemoveSkips(t *testing.T) {
	tests := []struct {
		name string
		make func(t *testing.T, dir string)
		left int
		want error
	}{
		{"immutable file", func(t *testing.T, dir string) {
			f := filepath.Join(dir, "a", "b", "stuck")
			must(t, os.MkdirAll(filepath.Dir(f), 0o700), os.WriteFile(f, nil, 0o600))
			immutable(t, f)
		}, 1, unix.EPERM},
		{"two immutable files", func(t *testing.T, dir string) {
			for _, d := range []string{"a", "b"} {
				f := filepath.Join(dir, d, "c", "stuck")
				must(t, os.MkdirAll(filepath.Dir(f), 0o700), os.WriteFile(f, nil, 0o600))
				immutable(t, f)
			}
		}, 2, unix.EPERM},
		{"immutable directory", func(t *testing.T, dir string) {
			d := filepath.Join(dir, "a", "b", "stuck")
			must(t, os.MkdirAll(filepath.Join(d, "c"), 0o700))
			immutable(t, d)
		}, 1, unix.EPERM},
		{"mount", func(t *testing.T, dir string) {
			d := filepath.Join(dir, "a", "b", "stuck")
			must(t, os.MkdirAll(d, 0o700))
			mount(t, d, "tmpfs", "tmpfs", 0)
		}, 1, unix.EBUSY},
		// The device is the same: only the mount differs.
		{"bind mount", func(t *testing.T, dir string) {
			d := filepath.Join(dir, "stuck")
			must(t, os.Mkdir(d, 0o700))
			mount(t, d, filepath.Join(dir, "..", "outside"), "", unix.MS_BIND)
		}, 1, unix.EBUSY},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			base := t.TempDir()
			dir := filepath.Join(base, "dir")
			must(t, os.Mkdir(dir, 0o700), os.Mkdir(filepath.Join(base, "outside"), 0o700), os.Mkdir(filepath.Join(base, "outside", "keep"), 0o700))
			tt.make(t, dir)
			for i := range 200 {
				d := filepath.Join(dir, "a", fmt.Sprint(i), "y")
				must(t, os.MkdirAll(d, 0o700), os.WriteFile(filepath.Join(d, "f"), nil, 0o600))
			}
			got := new(remover).remove(t.Context(), dir, nil)
			if got.Left != tt.left || !errors.Is(got.Err, tt.want) || !strings.Contains(got.Err.Error(), `"stuck"`) {
				t.Errorf("got %+v, want %d left for %v", got, tt.left, tt.want)
			}
			if got.Removed < 600 {
				t.Errorf("removed %d, want at least 600", got.Removed)
			}
			files := 0
			must(t, filepath.WalkDir(dir, func(string, os.DirEntry, error) error { files++; return nil }))
			if files > 7 {
				t.Errorf("%d files and directories are left", files)
			}
			wantNames(t, filepath.Join(base, "outside"), "keep")
		})
	}
}

// TestStuckEntry checks that a stuck entry is reported once, and deleted at the next start
// if possible.
func TestStuckEntry(t *testing.T) {
	dir := t.TempDir()
	var reps reports
	tr := open(t, dir, reps.add)
	victim := tree(t)
	stuck := filepath.Join(victim, "stuck")
	must(t, os.WriteFile(stuck, nil, 0o600))
	loosen := immutable(t, stuck)
	entry := put(t, tr, victim, "ws")
	run(t, tr)
	idle(t, tr)
	wantNames(t, dir, filepath.Base(entry))
	if got := reps.take(); len(got) != 1 || got[0].Entry != entry || got[0].Left != 1 || !errors.Is(got[0].Err, unix.EPERM) {
		t.Errorf("reports %+v", got)
	}
	if got := tr.Stats(); got.Entries != 0 || got.Stuck.Inodes != 2 || got.Stuck.Bytes == 0 {
		t.Errorf("stats %+v", got)
	}
	put(t, tr, tree(t), "other")
	idle(t, tr)
	if got := reps.take(); len(got) != 1 || got[0].Err != nil {
		t.Errorf("reports %+v", got)
	}
	loosen()
	next := open(t, dir, reps.add)
	run(t, next)
	idle(t, next)
	wantNames(t, dir)
	if got := reps.take(); len(got) != 1 || got[0].Entry != entry || got[0].Err != nil {
		t.Errorf("reports %+v", got)
	}
}

func TestRemoveMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("it measures memory")
	}
	dir := filepath.Join(memory(t), "dir")
	must(t, os.Mkdir(dir, 0o700))
	wide(t, dir, 50000)
	deep(t, dir, 2000)
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if got := new(remover).remove(t.Context(), dir, nil); got.Err != nil {
		t.Fatal(got.Err)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 1<<20 {
		t.Errorf("%d bytes stay in use", grown)
	}
}

func TestRemoveCanceled(t *testing.T) {
	dir := tree(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := new(remover).remove(ctx, dir, nil); !errors.Is(got.Err, context.Canceled) {
		t.Errorf("got %+v", got)
	}
	wantNames(t, dir, "a")
	if got, want := new(remover).remove(t.Context(), dir, nil), (Report{Removed: 3}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got, want := new(remover).remove(t.Context(), dir, nil), (Report{}); got != want {
		t.Errorf("of a missing directory: got %+v, want %+v", got, want)
	}
}

// immutable sets the immutable flag until loosen or the end of the test. The file may be renamed
// meanwhile.
func immutable(t *testing.T, path string) (loosen func()) {
	t.Helper()
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	must(t, err)
	must(t, unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, unix.STATX_ATTR_IMMUTABLE))
	loosened := false
	loosen = func() {
		if !loosened {
			loosened = true
			must(t, unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, 0), unix.Close(fd))
		}
	}
	t.Cleanup(loosen)
	return loosen
}

func mount(t *testing.T, target, source, fstype string, flags uintptr) {
	t.Helper()
	// The parent may be renamed meanwhile, so the descriptor names the mount.
	must(t, unix.Mount(source, target, fstype, flags, ""))
	fd, err := unix.Open(target, unix.O_PATH|unix.O_CLOEXEC, 0)
	must(t, err)
	t.Cleanup(func() {
		must(t, unix.Unmount(fmt.Sprintf("/proc/self/fd/%d", fd), unix.MNT_DETACH), unix.Close(fd))
	})
}
