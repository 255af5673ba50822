package overlay

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/tests/wait"
)

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

// TestPointsOfBackup has a directory of mount points as an archive brings it that was made while a workspace was mounted.
// What is mounted there stays, and is an error that says what to do.
func TestPointsOfBackup(t *testing.T) {
	p := newPlugin(t)
	mustDetach(t, p.points)
	dir, mounted := filepath.Join(p.points, "ws", "dir"), filepath.Join(p.points, "other", "mounted")
	for _, path := range []string{dir, mounted} {
		if err := os.MkdirAll(path, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(path, "file"), nil, 0o400); err != nil {
			t.Fatal(err)
		}
	}
	elsewhere := t.TempDir()
	if err := errors.Join(os.Symlink(elsewhere, filepath.Join(dir, "link")), os.WriteFile(filepath.Join(elsewhere, "file"), nil, 0o644),
		unix.Mount(elsewhere, mounted, "", unix.MS_BIND, "")); err != nil {
		t.Fatal(err)
	}
	if err := MountPoints(p.points); err == nil || !strings.Contains(err.Error(), "unmount what is mounted there") {
		t.Errorf("with a mount: %v", err)
	}
	if _, err := os.Stat(filepath.Join(mounted, "file")); err != nil {
		t.Error(err)
	}
	mustDetach(t, mounted)
	if err := MakePoint(p.points, "ws"); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(filepath.Join(p.points, "ws")); err != nil || len(left) > 0 {
		t.Errorf("in the mount point: %v, %v", left, err)
	}
	if _, err := os.Stat(filepath.Join(elsewhere, "file")); err != nil {
		t.Error(err)
	}
}

// TestShared checks that mounts propagate only while another namespace has a peer of the
// tmpfs. The copy of a container is a slave, not a peer.
func TestShared(t *testing.T) {
	p := newPlugin(t)
	want := func(when string, want bool) {
		t.Helper()
		for range 3 {
			if got, err := Propagates(p.points); err != nil || got != want {
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
	// The two namespaces differ like this after a crash of the engine.
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
	if err := MakePoint(p.points, "x"); err != nil { // another event does not close the channel
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
	case <-time.After(wait.Most(t)):
		t.Error("not closed after the last unmount")
	}
	if _, err := os.Lstat(filepath.Join(p.points, "x")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what was in the tmpfs: %v", err)
	}
}

// TestOldPoints has a host that still has an old tmpfs, which this process can't reach. The
// host must see the new tmpfs, not a mount point of the same name in the old one, and the
// old overlay must be free.
func TestOldPoints(t *testing.T) {
	s := newSpec(t)
	p := newPluginOf(t, s)
	host := unshare(t, "unchanged")
	// Bind the directory again, as for a new process of the plugin: a peer of the host's,
	// without the tmpfs.
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
	if shared, err := Propagates(points); err != nil || !shared {
		t.Errorf("shared: %v, %v", shared, err)
	}
	if got := host.run("ls -A " + p.target + " | grep new"); got != "new" {
		t.Errorf("in the workspace the host sees %q, want the new overlay", got)
	}
	scratch := filepath.Join(filepath.Dir(s.Upper), "scratch")
	busy, err := Busy(s.Upper, scratch)
	for try := 0; err == nil && busy && try < 100; try++ { // new processes of others have copies for a moment
		time.Sleep(50 * time.Millisecond)
		busy, err = Busy(s.Upper, scratch)
	}
	if err != nil || busy {
		t.Errorf("the old overlay is in use: %v, %v", busy, err)
	}
}
