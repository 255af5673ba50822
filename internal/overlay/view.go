package overlay

import (
	"errors"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// View mounts a read-only merge of the layers of s, of which there are at least two. One of
// them may be the upper of another overlay that is not mounted, with the Metacopy and
// Redirects of that; s has no Upper, Work or Target itself. The mount is not attached
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

// viewStrings names the layers through openDirs, for kernels before 6.13. An option has
// at most 255 bytes, enough for about 12 layers.
func viewStrings(s Spec) (*os.File, error) {
	var dirs openDirs
	defer dirs.close()
	names, err := dirs.open(s.Lower...)
	if err != nil {
		return nil, err
	}
	return viewOf(s, nil, "lowerdir="+strings.Join(names, ":"))
}

// viewOf mounts a view of layers, passed as descriptors or named in an option.
func viewOf(s Spec, lower []string, options ...string) (*os.File, error) {
	options = append(append([]string{"source=view"}, s.options()...), options...)
	c, err := newContext("overlay", options...)
	if err != nil {
		return nil, err
	}
	defer c.close()
	if err := c.addLayers("lowerdir+", lower...); err != nil {
		return nil, err
	}
	mnt, err := c.mount(unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NOEXEC)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(mnt), "overlay view"), nil
}

// Root opens the root of the mount at target (O_PATH). The mount lives until the descriptor
// is closed, also if it is detached meanwhile: the last one to close it tears it down, which
// can take seconds. The error is ErrNotMounted if nothing is mounted at target, and
// fs.ErrNotExist if target does not exist.
func Root(target string) (f *os.File, err error) {
	defer wrap(&err, "open the mount at %q", target)
	fd, mounted, err := openTarget(target)
	if err != nil {
		return nil, err
	}
	f = os.NewFile(uintptr(fd), "overlay")
	if !mounted {
		return nil, errors.Join(ErrNotMounted, f.Close())
	}
	return f, nil
}
