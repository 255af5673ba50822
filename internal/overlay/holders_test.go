package overlay

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

func TestHolders(t *testing.T) {
	p := newPlugin(t)
	host := unshare(t, "unchanged")
	want := func(when string, want int) {
		t.Helper()
		got, err := Copies(p.target, p.points)
		for try := 0; err == nil && got != want && try < 20; try++ { // others mount meanwhile
			got, err = Copies(p.target, p.points)
		}
		if err != nil || got != want {
			t.Errorf("%s: %d, %v, want %d", when, got, err, want)
		}
	}
	want("nobody", 0)
	// A container is a slave of the host's, with a bind of the mount and without the rest.
	start := func() namespace {
		c := unshare(t, "slave")
		at := t.TempDir()
		c.run("mount --bind " + p.target + " " + at + " && umount -l " + p.points)
		return c
	}
	first := start()
	want("one container", 1)
	second := start()
	want("two", 2)
	first.end()
	want("one has ended", 1)
	if err := os.Mkdir(filepath.Join(p.target, ".git"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(p.target, ".git/helmdeck.json"), "{}")
	want("with a file of ours", 1)
	if err := errors.Join(os.RemoveAll(filepath.Join(p.target, ".git")), os.Symlink("dir", filepath.Join(p.target, ".git"))); err != nil {
		t.Fatal(err)
	}
	want("with a link in its place", 1)
	for _, name := range []string{"dir", "file"} {
		if err := os.RemoveAll(filepath.Join(p.target, name)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Copies(p.target, p.points); !errors.Is(err, ErrUnknown) {
		t.Errorf("with nothing but a link: %v", err)
	}
	second.end()
	host.run("true")
	points, err := Mounts(p.points)
	if err != nil || len(points) != 2 {
		t.Errorf("left: %v, %v", points, err)
	}
	mustDetach(t, p.target)
	if _, err := Copies(p.target, p.points); !errors.Is(err, ErrNotMounted) {
		t.Errorf("not mounted: %v", err)
	}
}

// TestHoldersAmongOthers checks that a running container is counted while other namespaces
// come and go.
func TestHoldersAmongOthers(t *testing.T) {
	p := newPlugin(t)
	host := unshare(t, "unchanged")
	c := unshare(t, "slave")
	at := t.TempDir()
	c.run("mount --bind " + p.target + " " + at + " && umount -l " + p.points)
	ctx, stop := context.WithCancel(t.Context())
	var others sync.WaitGroup
	for range 2 {
		others.Go(func() {
			for ctx.Err() == nil {
				if out, err := exec.Command("unshare", "--mount", "--propagation", "unchanged", "true").CombinedOutput(); err != nil {
					t.Errorf("unshare: %v: %s", err, out)
					return
				}
			}
		})
	}
	for i := range 100 {
		if n, err := Copies(p.target, p.points); err != nil || n < 1 {
			t.Errorf("count %d: %d, %v, want 1 or more", i, n, err)
			break
		}
	}
	stop()
	others.Wait()
	host.run("true")
}
