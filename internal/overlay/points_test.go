package overlay

import (
	"bufio"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// plugin is a data directory that is a shared mount, as a plugin has it, with its
// mount points and one overlay at mnt/ws.
type plugin struct{ dir, points, target string }

func newPlugin(t *testing.T) plugin { return newPluginOf(t, newSpec(t)) }

func newPluginOf(t *testing.T, s Spec) plugin {
	t.Helper()
	dir := filepath.Dir(s.Target)
	if err := unix.Mount(dir, dir, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	propagate(t, dir, unix.MS_PRIVATE)
	propagate(t, dir, unix.MS_SHARED)
	p := plugin{dir, filepath.Join(dir, "mnt"), filepath.Join(dir, "mnt", "ws")}
	if err := MakePoint(p.points, "ws"); err != nil {
		t.Fatal(err)
	}
	s.Target = p.target
	mustMount(t, s)
	return p
}

func propagate(t *testing.T, dir string, how uintptr) {
	t.Helper()
	if err := unix.Mount("", dir, "", how, ""); err != nil {
		t.Fatal(err)
	}
}

// namespace is a process in a mount namespace of its own, and what it runs there.
type namespace struct {
	t   *testing.T
	in  *os.File
	out *bufio.Reader
	end func()
}

// unshare starts one whose mounts have the propagation that it is given; "unchanged"
// makes its mounts peers of those here, as the host's are of a plugin's.
func unshare(t *testing.T, propagation string) namespace {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("unshare", "--mount", "--propagation", propagation, "sh")
	cmd.Stdin, cmd.Stderr = r, os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r.Close()
	n := namespace{t: t, in: w, out: bufio.NewReader(out)}
	n.end = func() { w.Close(); cmd.Wait() }
	t.Cleanup(n.end)
	n.run("true")
	return n
}

// run waits for a command's end, and returns what it prints, in one line.
func (n namespace) run(command string) string {
	n.t.Helper()
	if _, err := n.in.WriteString("out=$(" + command + "); echo $out $?\n"); err != nil {
		n.t.Fatal(err)
	}
	line, err := n.out.ReadString('\n')
	text, ok := strings.CutSuffix(strings.TrimSpace(line), "0")
	if err != nil || !ok {
		n.t.Fatalf("%s: %q, %v", command, line, err)
	}
	return strings.TrimSpace(text)
}

func TestPoints(t *testing.T) {
	p := newPlugin(t)
	var st unix.Stat_t
	if err := unix.Stat(p.points, &st); err != nil || st.Mode&0o777 != 0o700 {
		t.Errorf("the mount points: mode %o, %v", st.Mode, err)
	}
	if err := errors.Join(MountPoints(p.points), MakePoint(p.points, "ws"), MakePoint(p.points, "other")); err != nil {
		t.Error(err)
	}
	points, err := Mounts(p.points)
	if err != nil || len(points) != 2 {
		t.Errorf("mounted: %v, %v, want the tmpfs and the overlay", points, err)
	}
	// A process that does not see the tmpfs finds no mount point.
	mustDetach(t, p.points)
	if left, err := os.ReadDir(p.points); err != nil || len(left) > 0 {
		t.Errorf("under the tmpfs: %v, %v, want nothing", left, err)
	}
	if err := MakePoint(p.points, "ws"); err != nil {
		t.Errorf("after the tmpfs was unmounted: %v", err)
	}
	mustDetach(t, p.points)
	if err := unix.Mount(p.dir, p.points, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	if err := MakePoint(p.points, "ws"); err == nil || !strings.Contains(err.Error(), "something other") {
		t.Errorf("on another mount: %v", err)
	}
	mustDetach(t, p.points)
}

// TestShared: mounts reach others exactly while these have a peer of the tmpfs, which
// a container's copy, a slave, is not.
func TestShared(t *testing.T) {
	p := newPlugin(t)
	want := func(when string, want bool) {
		t.Helper()
		for range 3 {
			if got, err := Shared(p.points); err != nil || got != want {
				t.Errorf("%s: %v, %v, want %v", when, got, err, want)
			}
		}
	}
	want("nobody else", false)
	container := unshare(t, "slave")
	want("a container", false)
	host := unshare(t, "unchanged")
	want("the host", true)
	if got := host.run("ls -A " + p.points); got != "ws" {
		t.Errorf("the host sees %q, want the workspace alone", got)
	}
	// So are the two after an engine's crash.
	host.run("mount --make-rprivate " + p.dir + " && umount -l " + p.points)
	want("unmounted by the host alone", false)
	container.run("true")
	mustDetach(t, p.points)
	want("no tmpfs", false)
	if left, err := filepath.Glob(filepath.Join(p.points, ".probe-*")); err != nil || len(left) > 0 {
		t.Errorf("left: %q, %v", left, err)
	}
}

func TestUnmounted(t *testing.T) {
	p := newPlugin(t)
	gone, stop, err := Unmounted(p.points)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	host := unshare(t, "unchanged")
	other, stopOther, err := Unmounted(p.points)
	if err != nil {
		t.Fatal(err)
	}
	stopOther()
	<-other
	mustDetach(t, p.target)
	if err := MakePoint(p.points, "x"); err != nil { // an event of another kind is not the end
		t.Fatal(err)
	}
	select {
	case <-gone:
		t.Fatal("closed while the tmpfs is mounted")
	default:
	}
	host.run("umount -l " + p.points)
	select {
	case <-gone:
	case <-time.After(time.Minute):
		t.Error("not closed after the last unmount")
	}
	if _, err := os.Lstat(filepath.Join(p.points, "x")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what was in the tmpfs: %v", err)
	}
}

func TestHolders(t *testing.T) {
	p := newPlugin(t)
	host := unshare(t, "unchanged")
	want := func(when string, want int) {
		t.Helper()
		got, err := Holders(p.target, p.points)
		for try := 0; err == nil && got != want && try < 20; try++ { // others mount meanwhile
			got, err = Holders(p.target, p.points)
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
	if _, err := Holders(p.target, p.points); !errors.Is(err, ErrUnknown) {
		t.Errorf("with nothing but a link: %v", err)
	}
	second.end()
	host.run("true")
	points, err := Mounts(p.points)
	if err != nil || len(points) != 2 {
		t.Errorf("left: %v, %v", points, err)
	}
	mustDetach(t, p.target)
	if _, err := Holders(p.target, p.points); !errors.Is(err, ErrNotMounted) {
		t.Errorf("not mounted: %v", err)
	}
}

// TestDetachTwice: of two at the same time one detaches, and the other says that nothing is mounted.
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

// TestHoldersAmongOthers: a container that lives is seen, whatever namespaces come and go meanwhile.
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
		if n, err := Holders(p.target, p.points); err != nil || n < 1 {
			t.Errorf("count %d: %d, %v, want 1 or more", i, n, err)
			break
		}
	}
	stop()
	others.Wait()
	host.run("true")
}

// TestMove: a container goes on, with what is bound in its copy.
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
		if err := Bind(filepath.Join(p.dir, "cache"), from, "dir"); err != nil {
			t.Fatal(err)
		}
		c := unshare(t, "slave")
		at := t.TempDir()
		c.run("mount --rbind " + from + " " + at + " && umount -l " + p.points + " && umount -l " + p.dir)
		to := filepath.Join(p.points, "moved")
		if err := MakePoint(p.points, "moved"); err != nil {
			t.Fatal(err)
		}
		if died { // between its two steps
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
		// It still is the one who has it.
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

// TestOldPoints: where the host still has the tmpfs of before, on which this process has no grip any more, it sees the
// new one all the same, and not the directory of a workspace of the same name in the old one; and the old overlay is free.
func TestOldPoints(t *testing.T) {
	s := newSpec(t)
	p := newPluginOf(t, s)
	host := unshare(t, "unchanged")
	// The plugin's directory as it is bound anew for another process of the plugin: a peer of the host's, without the tmpfs.
	again := t.TempDir()
	if err := unix.Mount(p.dir, again, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Unmount(again, unix.MNT_DETACH) })
	propagate(t, p.dir, unix.MS_PRIVATE|unix.MS_REC)
	mustDetach(t, p.dir)
	points := filepath.Join(again, "mnt")
	if got := host.run("ls -A " + p.points); got != "ws" {
		t.Fatalf("the host sees %q before", got)
	}
	if err := MakePoint(points, "ws"); err != nil {
		t.Fatal(err)
	}
	n := newSpec(t)
	if err := os.WriteFile(filepath.Join(n.Upper, "new"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	n.Target = filepath.Join(points, "ws")
	mustMount(t, n)
	if shared, err := Shared(points); err != nil || !shared {
		t.Errorf("shared: %v, %v", shared, err)
	}
	if got := host.run("ls -A " + p.target + " | grep new"); got != "new" {
		t.Errorf("in the workspace the host sees %q, want the new overlay", got)
	}
	scratch := filepath.Join(filepath.Dir(s.Upper), "scratch")
	busy, err := Busy(s.Upper, scratch)
	for try := 0; err == nil && busy && try < 100; try++ { // processes that others start have copies for a moment
		time.Sleep(50 * time.Millisecond)
		busy, err = Busy(s.Upper, scratch)
	}
	if err != nil || busy {
		t.Errorf("the old overlay is in use: %v, %v", busy, err)
	}
}
