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
	f, err = viewOf(func(c fsContext) error { return c.setLower(lower) })
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
	return viewOf(func(c fsContext) error { return c.setOption("lowerdir=" + strings.Join(names, ":")) })
}

// viewOf calls set to add the layers.
func viewOf(set func(fsContext) error) (*os.File, error) {
	c, err := newContext("overlay", "source=view", "index=off", "nfs_export=off", "metacopy=off", "redirect_dir=off")
	if err != nil {
		return nil, err
	}
	defer c.close()
	if err := set(c); err != nil {
		return nil, err
	}
	mnt, err := c.mount(unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NOEXEC)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(mnt), "overlay view"), nil
}

// setLower passes the lower layers, topmost first, as descriptors.
func (c fsContext) setLower(lower []string) error {
	for _, l := range lower {
		if err := c.setDir("lowerdir+", l); err != nil {
			return err
		}
	}
	return nil
}
