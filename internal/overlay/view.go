package overlay

import (
	"errors"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// View mounts a read-only merge of at least two layers, topmost first. The mount is not
// attached anywhere: closing the returned descriptor of its root (O_PATH) unmounts it, so
// a crash leaves none behind.
func View(lower []string) (f *os.File, err error) {
	defer wrap(&err, "view %d layers", len(lower))
	if len(lower) < 2 {
		return nil, errors.New("the kernel needs at least two")
	}
	f, err = viewOf(lower)
	if errors.Is(err, errNoDescriptors) {
		return viewStrings(lower)
	}
	return f, err
}

// viewStrings names the layers through openDirs, for kernels before 6.13. An option has
// at most 255 bytes, enough for about 12 layers.
func viewStrings(lower []string) (*os.File, error) {
	var dirs openDirs
	defer dirs.close()
	names, err := dirs.open(lower...)
	if err != nil {
		return nil, err
	}
	return viewOf(nil, "lowerdir="+strings.Join(names, ":"))
}

// viewOf mounts a view of layers, passed as descriptors or named in an option.
func viewOf(lower []string, options ...string) (*os.File, error) {
	options = append([]string{"source=view", "index=off", "nfs_export=off", "metacopy=off", "redirect_dir=off"}, options...)
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
