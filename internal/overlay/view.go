package overlay

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// View mounts a read-only merge of the layers of s, of which there are at least two. One of
// them may be the upper of another overlay that is not mounted, with the Metacopy
// of that; s has no Upper, Work or Target itself. The mount is not attached
// anywhere: closing the returned descriptor of its root (O_PATH) unmounts it, so a crash
// leaves none behind. Busy does not see it.
func View(s Spec) (f *os.File, err error) {
	defer wrap(&err, "view %d layers", len(s.Lower))
	if len(s.Lower) < 2 {
		return nil, errors.New("the kernel needs at least two")
	}
	f, err = viewOf(s, s.Lower)
	if errors.Is(err, errNoDescriptors) {
		return viewStrings(s)
	}
	return f, err
}

// maxValue is the length in bytes of the longest value of an option.
const maxValue = 255

// viewStrings names the layers, for kernels before 6.13. So that some 60 names fit into one
// option, they are those of descriptors in /proc/self/fd, which is the working directory of a
// thread that does only this.
func viewStrings(s Spec) (f *os.File, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // without an unlock, so the thread ends here
		f, err = viewNamed(s)
	}()
	<-done
	return f, err
}

// viewNamed is viewStrings in a thread of its own.
func viewNamed(s Spec) (*os.File, error) {
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return nil, fmt.Errorf("unshare: %w", err)
	}
	if err := unix.Chdir("/proc/self/fd"); err != nil {
		return nil, fmt.Errorf("chdir: %w", err)
	}
	var dirs openDirs
	defer dirs.close()
	names, err := dirs.open(s.Lower...)
	if err != nil {
		return nil, err
	}
	for i, name := range names {
		names[i] = filepath.Base(name)
	}
	value := strings.Join(names, ":")
	if len(value) > maxValue {
		return nil, fmt.Errorf("the names of %d layers take %d bytes, and this kernel allows %d: a newer one (6.13) allows 500 layers", len(names), len(value), maxValue)
	}
	return viewOf(s, nil, "lowerdir="+value)
}

// viewOf mounts a view of layers, passed as descriptors or named in an option.
func viewOf(s Spec, lower []string, options ...string) (*os.File, error) {
	options = append(append([]string{"source=view"}, s.options()...), options...)
	filesystem, err := newFilesystem("overlay", options, lowerLayers(lower)...)
	if err != nil {
		return nil, err
	}
	defer unix.Close(filesystem)
	mnt, err := unix.Fsmount(filesystem, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC)
	if err != nil {
		return nil, explain(filesystem, "fsmount", err)
	}
	return os.NewFile(uintptr(mnt), "overlay view"), nil
}

// Root opens the root of the mount at target (O_PATH). The mount lives until the descriptor
// is closed, also if it is detached meanwhile: the last one to close it tears it down, which
// can take seconds. The error is ErrNotMounted if nothing is mounted at target, and
// fs.ErrNotExist if target does not exist.
func Root(target string) (f *os.File, err error) {
	defer wrap(&err, "open the mount at %q", target)
	fd, mounted, err := openDir(unix.AT_FDCWD, target)
	if err != nil {
		return nil, err
	}
	f = os.NewFile(uintptr(fd), "overlay")
	if !mounted {
		return nil, errors.Join(ErrNotMounted, f.Close())
	}
	return f, nil
}
