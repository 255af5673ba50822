package image

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// inode identifies a file, whatever the path by which it is opened.
type inode struct{ dev, ino uint64 }

// TestEveryProgramIsStarted runs what makes the plugin start programs, and checks that the image has
// no program that was not started. The kernel reports the starts. As a control, a program that
// nothing starts is added to a copy of the image.
func TestEveryProgramIsStarted(t *testing.T) {
	const extra = "usr/bin/extra"
	image := copyImage(t, "traced")
	dash, err := os.ReadFile(filepath.Join(image, "usr/bin/dash"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(image, extra), dash, 0o755); err != nil {
		t.Fatal(err)
	}
	programs := programsOf(t, image)
	started := watch(t, programs)

	p := start(t, "trace", image)
	s := serveHTTP(t)
	dir := mount(t, p, "http", map[string]string{"repo": s.URL("app"), "filter": "blob:none"})
	if err := os.WriteFile(filepath.Join(dir, "work"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := p.Unmount(t.Context(), "http", "http"); err != nil {
		t.Fatal(err)
	}
	mount(t, p, "ssh", map[string]string{"repo": serveSSH(t, p)})

	seen := started()
	var never []string
	for file, name := range programs {
		if !seen[file] {
			never = append(never, name)
		}
	}
	if slices.Sort(never); !slices.Equal(never, []string{extra}) {
		t.Errorf("programs that were never started: %q, want only the control, %q", never, extra)
	}
	if len(programs) < 5 {
		t.Errorf("programs of the image: %v, want at least the plugin, git, its transport, ssh and the shell", programs)
	}
}

// programsOf returns the names of the executable files below a root directory. Libraries, which are
// found by the tests of rootfs/build, are not programs, even if they can be executed. The place of
// the plugin's program is that of the one under test.
func programsOf(t *testing.T, root string) map[inode]string {
	t.Helper()
	programs := make(map[inode]string)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if name == "usr/bin/helmdeck-repos" {
			path = program
		}
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		if info.Mode()&0o111 != 0 && !strings.Contains(filepath.Base(name), ".so") {
			stat := info.Sys().(*syscall.Stat_t)
			programs[inode{stat.Dev, stat.Ino}] = name
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return programs
}

// watch makes the kernel report each start of a program. The function that it returns returns those
// that were started.
func watch(t *testing.T, programs map[inode]string) func() map[inode]bool {
	t.Helper()
	fd, err := unix.FanotifyInit(unix.FAN_CLASS_NOTIF|unix.FAN_CLOEXEC|unix.FAN_NONBLOCK|unix.FAN_UNLIMITED_QUEUE, unix.O_RDONLY|unix.O_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	for _, name := range programs {
		path := filepath.Join(scratch, "traced", name)
		if name == "usr/bin/helmdeck-repos" {
			path = program
		}
		if err := unix.FanotifyMark(fd, unix.FAN_MARK_ADD, unix.FAN_OPEN_EXEC, unix.AT_FDCWD, path); err != nil {
			t.Fatalf("watch %s: %v", path, err)
		}
	}
	return func() map[inode]bool {
		started := make(map[inode]bool)
		buffer := make([]byte, 64<<10)
		for {
			n, err := unix.Read(fd, buffer)
			if errors.Is(err, unix.EAGAIN) {
				return started
			}
			if err != nil {
				t.Fatal(err)
			}
			for rest := buffer[:n]; len(rest) > 0; {
				event := (*unix.FanotifyEventMetadata)(unsafe.Pointer(&rest[0]))
				rest = rest[event.Event_len:]
				var stat unix.Stat_t
				if err := unix.Fstat(int(event.Fd), &stat); err != nil {
					t.Fatal(err)
				}
				unix.Close(int(event.Fd))
				started[inode{stat.Dev, stat.Ino}] = true
			}
		}
	}
}
