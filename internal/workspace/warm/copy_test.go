package warm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/disk/upfile"
	"github.com/helmdeck/repos/internal/meta"
)

// flattened promotes what f writes, and then enough layers for them to be flattened.
func (w *world) flattened(want Want, f func(s *session)) {
	w.t.Helper()
	w.run(want, f)
	for i := 1; i < flattenAt; i++ {
		w.run(want, func(s *session) { s.write(want.Paths[0]+"/n", fmt.Sprint(i)) })
	}
}

// TestFlattenSparse checks that holes stay holes.
func TestFlattenSparse(t *testing.T) {
	t.Parallel()
	const size, at = 4 << 30, 1<<30 + 12345
	w := newWorld(t)
	nm := w.want("nm")
	w.flattened(nm, func(s *session) {
		s.write("nm/empty", "")
		s.write("nm/sparse", "begin")
		if err := errors.Join(os.Truncate(filepath.Join(s.dir, "nm/empty"), size), os.Truncate(filepath.Join(s.dir, "nm/sparse"), size)); err != nil {
			t.Fatal(err)
		}
		f, err := os.OpenFile(filepath.Join(s.dir, "nm/sparse"), os.O_WRONLY, 0)
		if err == nil {
			_, err = f.WriteAt([]byte("middle"), at)
		}
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
	})
	if got := w.chain(); len(got) != 1 {
		t.Fatalf("%d layers, want 1", len(got))
	}
	dir := filepath.Join(w.filesOf(w.chain()[0]), "nm")
	for _, name := range []string{"empty", "sparse"} {
		if st, err := upfile.Stat(unix.AT_FDCWD, filepath.Join(dir, name)); err != nil || st.Size != size || st.Blocks*512 > 1<<20 {
			t.Errorf("%s: %d bytes in %d blocks, %v", name, st.Size, st.Blocks, err)
		}
	}
	f, err := os.Open(filepath.Join(dir, "sparse"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for at, want := range map[int64]string{0: "begin\x00", at: "middle\x00", at - 3: "\x00\x00\x00m"} {
		got := make([]byte, len(want))
		if _, err := f.ReadAt(got, at); err != nil || string(got) != want {
			t.Errorf("at %d: %q, %v", at, got, err)
		}
	}
}

// TestFlattenLinks checks that names of one file still are after a copy, even if their paths
// are too long for the kernel.
func TestFlattenLinks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	nm := w.want("nm")
	w.flattened(nm, func(s *session) {
		s.write("nm/x", "x")
		at, err := os.Open(filepath.Join(s.dir, "nm"))
		for range 20 {
			name := strings.Repeat("d", 255)
			err = errors.Join(err, unix.Mkdirat(int(at.Fd()), name, 0o755))
			fd, openErr := unix.Openat(int(at.Fd()), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
			if err = errors.Join(err, openErr, at.Close()); err != nil {
				t.Fatal(err)
			}
			at = os.NewFile(uintptr(fd), name)
		}
		for _, name := range []string{"one", "two"} {
			err = errors.Join(err, unix.Linkat(unix.AT_FDCWD, filepath.Join(s.dir, "nm/x"), int(at.Fd()), name, 0))
		}
		if err := errors.Join(err, at.Close()); err != nil {
			t.Fatal(err)
		}
	})
	if got := w.chain(); len(got) != 1 {
		t.Fatalf("%d layers, want 1", len(got))
	}
	layer := w.filesOf(w.chain()[0])
	if st, err := upfile.Stat(unix.AT_FDCWD, filepath.Join(layer, "nm/x")); err != nil || st.Nlink != 3 {
		t.Errorf("%d names, %v, want 3", st.Nlink, err)
	}
	if entries, err := os.ReadDir(layer); err != nil || len(entries) != 1 {
		t.Errorf("the layer has %v, %v", entries, err)
	}
}

// TestCopyBounds checks that a copy stops at its limit of bytes, and in the middle of a file
// when its context ends.
func TestCopyBounds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	from := filepath.Join(w.root, "from")
	w.write(filepath.Join(from, "big"), string(bytes.Repeat([]byte{'x'}, 16*upfile.Chunk)))
	for _, tt := range []struct {
		name string
		ctx  context.Context
		room int64
		want error
	}{
		{"no room", t.Context(), 4 * upfile.Chunk, upfile.ErrTooMuch},
		{"the end", &expiring{Context: t.Context(), after: 6}, 1 << 40, context.Canceled},
	} {
		to, links := filepath.Join(w.root, tt.name), filepath.Join(w.root, tt.name+" links")
		w.mkdir(links)
		if err := copyTree(tt.ctx, from, to, links, tt.room); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v", tt.name, err)
		}
		if info, err := os.Stat(filepath.Join(to, "big")); err != nil || info.Size() > 8*upfile.Chunk {
			t.Errorf("%s: %v, %v", tt.name, info, err)
		}
	}
}

// expiring is a context that ends after some calls of Err.
type expiring struct {
	context.Context
	after int
}

func (c *expiring) Err() error {
	if c.after--; c.after < 0 {
		return context.Canceled
	}
	return nil
}

// TestFlattenFails checks that layers are not flattened without room for the copy, and that not
// each promotion tries again, but one an hour later does, even if the head is full.
func TestFlattenFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	nm := w.want("nm")
	var tries, hours atomic.Int64
	w.m.config.Clones = users{use: func() { tries.Add(1) }}
	w.m.config.Now = func() time.Time { return time.Unix(hours.Load()*3600, 0) }
	w.run(nm, func(s *session) { s.write("nm/0", "0") })
	first := w.chain()[0]
	measure := func(size disk.Size) {
		t.Helper()
		layers := w.m.config.Layers.Set(cloneKey)
		l, _ := layers.Get(meta.WarmLayer, first)
		l.Size.Size = size
		temp, err := layers.Temp(meta.WarmLayer)
		if err == nil {
			err = errors.Join(os.Remove(temp), os.Rename(w.dirOf(first), temp))
		}
		if err == nil {
			_, err = layers.Publish(l, temp)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	measure(disk.Size{Bytes: 1 << 60, Inodes: 2})
	for i := 1; i <= maxChain; i++ {
		w.run(nm, func(s *session) { s.write(fmt.Sprint("nm/", i), fmt.Sprint(i)) })
	}
	if n := len(w.chain()); n != maxChain || tries.Load() != 1 {
		t.Errorf("%d layers after %d attempts to flatten them", n, tries.Load())
	}
	if got := w.layers(); len(got) != maxChain {
		t.Errorf("layers %q", got)
	}
	measure(disk.Size{Bytes: 4096, Inodes: 2})
	hours.Add(1)
	w.run(nm, func(s *session) { s.write("nm/last", "l") })
	if n := len(w.chain()); n >= flattenAt || tries.Load() != 2 {
		t.Errorf("%d layers after %d attempts to flatten them", n, tries.Load())
	}
}
