package overlay

import (
	"errors"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

// TestDetachTwice checks that of two concurrent calls one detaches, and the other may return
// ErrNotMounted.
func TestDetachTwice(t *testing.T) {
	p := newPlugin(t)
	spec := Spec{Lower: []string{filepath.Join(p.dir, "lower")}, Upper: filepath.Join(p.dir, "upper2"), Work: filepath.Join(p.dir, "work2"), Target: filepath.Join(p.dir, "twice")}
	mkdir(t, spec.Upper, spec.Work, spec.Target)
	for range 500 {
		mustMount(t, spec)
		var done atomic.Int32
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() {
				release, err := Detach(spec.Target)
				if err == nil {
					done.Add(1)
					err = release()
				} else if errors.Is(err, ErrNotMounted) {
					err = nil
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
		both.Wait()
		if n := done.Load(); n < 1 {
			t.Fatal("nobody detached it")
		}
	}
}

// TestMove checks that a container keeps its copy, with the mounts in it.
func TestMove(t *testing.T) {
	for _, died := range []bool{false, true} {
		p := newPlugin(t)
		from := filepath.Join(p.dir, "work", "..", "old")
		mkdir(t, from, filepath.Join(p.dir, "cache"))
		from = filepath.Join(p.dir, "old")
		write(t, filepath.Join(p.dir, "cache", "entry"), "cached")
		s := Spec{Lower: []string{filepath.Join(p.dir, "lower")}, Upper: filepath.Join(p.dir, "upper2"), Work: filepath.Join(p.dir, "work2"), Target: from}
		mkdir(t, s.Upper, s.Work)
		mustMount(t, s)
		if err := Bind(filepath.Join(p.dir, "cache"), from, "dir", false); err != nil {
			t.Fatal(err)
		}
		c := unshare(t, "slave")
		at := t.TempDir()
		c.run("mount --rbind " + from + " " + at + " && umount -l " + p.points + " && umount -l " + p.dir)
		to := filepath.Join(p.points, "moved")
		if err := MakePoint(p.points, "moved"); err != nil {
			t.Fatal(err)
		}
		if died { // between the two steps of Move
			if err := unix.Mount(from, to, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
				t.Fatal(err)
			}
		}
		if err := Move(from, to); err != nil {
			t.Fatal(err)
		}
		if mounted, err := Mounted(from); err != nil || mounted {
			t.Errorf("the old place is mounted: %v, %v", mounted, err)
		}
		if got := read(t, filepath.Join(to, "dir", "entry")); got != "cached" {
			t.Errorf("the new place has %q", got)
		}
		if got := c.run("cat " + filepath.Join(at, "dir", "entry")); got != "cached" {
			t.Errorf("the container has %q", got)
		}
		write(t, filepath.Join(to, "mine"), "x")
		if got := c.run("cat " + filepath.Join(at, "mine")); got != "x" {
			t.Errorf("the container has %q of what is written here", got)
		}
		// The container is still the only holder.
		for try := 0; ; try++ {
			n, err := Holders(to, p.points)
			if n == 1 && err == nil {
				break
			}
			if try == 20 {
				t.Errorf("holders: %d, %v", n, err)
				break
			}
		}
		if err := Move(from, to); !errors.Is(err, ErrNotMounted) {
			t.Errorf("again: %v", err)
		}
	}
}
