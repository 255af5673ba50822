package overlay

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestProbe(t *testing.T) {
	dir := t.TempDir()
	// The leftovers of a probe that was killed.
	left := filepath.Join(dir, probeDir, "basic")
	s := Spec{Lower: []string{filepath.Join(left, "lower")}, Upper: filepath.Join(left, "upper"), Work: filepath.Join(left, "work"), Target: filepath.Join(left, "tree")}
	mkdir(t, s.Lower[0], s.Upper, s.Work, s.Target)
	mustMount(t, s)
	for range 2 {
		got, err := Probe(dir)
		if err != nil {
			t.Fatal(err)
		}
		if want := (Features{Volatile: true, Metacopy: true}); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
		if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
			t.Errorf("left: %v, %v", entries, err)
		}
		if points, err := Mounts(dir); err != nil || len(points) != 0 {
			t.Errorf("left: %v, %v", points, err)
		}
	}
}

// TestProbeAmongOthers checks that mount namespaces that are made during a Probe, and keep their copies of its mounts,
// do not make it fail.
func TestProbeAmongOthers(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount(dir, dir, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	propagate(t, dir, unix.MS_PRIVATE) // or the copies would be unmounted with the mounts
	probed, end := make(chan struct{}), make(chan struct{})
	var others sync.WaitGroup
	others.Go(func() {
		made := make(chan error)
		for range 500 {
			select {
			case <-probed:
				return
			default:
			}
			others.Go(func() {
				runtime.LockOSThread() // without unlocking: the thread and its namespace end with the goroutine
				made <- unix.Unshare(unix.CLONE_NEWNS)
				<-end
			})
			if err := <-made; err != nil {
				t.Error(err)
				return
			}
		}
	})
	for range 3 {
		if _, err := Probe(dir); err != nil {
			t.Error(err)
			break
		}
	}
	close(probed)
	close(end)
	others.Wait()
}

func TestProbeRefuses(t *testing.T) {
	s := newSpec(t)
	mustMount(t, s)
	tests := []struct {
		name, dir, want string
	}{
		{"on an overlay", s.Target, "it is on an overlay"},
		{"no filesystem to write to", "/proc", "local filesystem"},
		{"missing", s.Target + "x", "no such file or directory"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Probe(tt.dir)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
	if _, err := os.Lstat(filepath.Join(s.Target, probeDir)); err == nil {
		t.Error("left its directory behind")
	}
}

func TestProbeWithoutCapability(t *testing.T) {
	dir := t.TempDir()
	errs := make(chan error)
	go func() {
		// Without unlocking: the thread ends with the goroutine.
		runtime.LockOSThread()
		hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var data [2]unix.CapUserData
		err := unix.Capget(&hdr, &data[0])
		if err == nil {
			data[0].Effective &^= 1 << unix.CAP_SYS_ADMIN
			err = unix.Capset(&hdr, &data[0])
		}
		if err == nil {
			_, err = Probe(dir)
		}
		errs <- err
	}()
	err := <-errs
	if err == nil || !strings.Contains(err.Error(), "CAP_SYS_ADMIN") {
		t.Errorf("got %v", err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("left: %v, %v", entries, err)
	}
}

// TestProbeInUserNamespace checks that the error does not advise to grant a capability,
// which is impossible there.
func TestProbeInUserNamespace(t *testing.T) {
	const variable = "PROBE_DIR"
	if dir := os.Getenv(variable); dir != "" { // the other process
		_, err := Probe(dir)
		fmt.Println(err)
		return
	}
	cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), variable+"="+t.TempDir())
	ids := []syscall.SysProcIDMap{{ContainerID: 0, HostID: 0, Size: 65536}}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWNS, UidMappings: ids, GidMappings: ids}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "in a user namespace, as with a rootless engine") || strings.Contains(string(out), "grant it\n") {
		t.Errorf("%v: %s", err, out)
	}
}

// TestContext checks that the option reaches the kernel, and that the error explains why a
// kernel without SELinux refuses it.
func TestContext(t *testing.T) {
	const context = "system_u:object_r:container_file_t:s0"
	if _, err := os.Stat("/sys/fs/selinux/enforce"); err == nil {
		s := newSpec(t)
		s.Context = context
		mustMount(t, s)
		label := make([]byte, 256)
		n, err := unix.Lgetxattr(filepath.Join(s.Target, "."), "security.selinux", label)
		if err != nil || strings.TrimRight(string(label[:n]), "\x00") != context {
			t.Errorf("label %q, %v; want %q", label[:max(n, 0)], err, context)
		}
		return
	}
	dir := t.TempDir()
	err := CheckContext(dir, context)
	for _, want := range []string{"context=" + context, "this kernel runs without SELinux"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("left: %v, %v", entries, err)
	}
}

func TestMounts(t *testing.T) {
	s := newSpec(t)
	s.Target = filepath.Join(filepath.Dir(s.Target), "a tree\nwith \\ \"odd\" name")
	s.Source = "helmdeck repos"
	mkdir(t, s.Target)
	mustMount(t, s)
	outside := t.TempDir()
	if err := Bind(outside, s.Target, "dir", false); err != nil {
		t.Fatal(err)
	}
	// A path that begins with the same text is not below root.
	other := newSpec(t)
	other.Target = filepath.Dir(s.Upper) + "-other"
	mkdir(t, other.Target)
	defer os.Remove(other.Target)
	mustMount(t, other)
	defer mustDetach(t, other.Target)

	got, err := Mounts(filepath.Dir(s.Upper))
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 {
		t.Fatalf("got %+v", got)
	}
	if got[0].Path != filepath.Join(s.Target, "dir") || got[0].Type == "overlay" {
		t.Errorf("first is %+v", got[0])
	}
	if want := (Point{Path: s.Target, Source: "helmdeck repos", Type: "overlay"}); got[1] != want {
		t.Errorf("second is %+v, want %+v", got[1], want)
	}
}
