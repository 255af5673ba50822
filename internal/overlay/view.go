package overlay

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// View mounts a read-only merge of at least two layers, topmost first. The mount is not
// attached anywhere: closing the returned descriptor of its root (O_PATH) unmounts it, so
// a crash leaves none behind.
func View(lower []string) (*os.File, error) {
	f, err := view(lower)
	if err != nil {
		return nil, fmt.Errorf("view %d layers: %w", len(lower), err)
	}
	return f, nil
}

func view(lower []string) (*os.File, error) {
	if len(lower) < 2 {
		return nil, errors.New("the kernel needs at least two")
	}
	f, err := viewOf(lower, fsContext.setLower)
	if errors.Is(err, errNoDescriptors) {
		return viewOf(lower, fsContext.setLowerString)
	}
	return f, err
}

// viewOf calls set to add the layers, and done once the mount exists.
func viewOf(lower []string, set func(c fsContext, lower []string) (done func(), err error)) (*os.File, error) {
	c, err := openContext("view")
	if err != nil {
		return nil, err
	}
	defer c.close()
	done, err := set(c, lower)
	if err != nil {
		return nil, err
	}
	defer done()
	for _, o := range []string{"index=off", "nfs_export=off", "metacopy=off", "redirect_dir=off"} {
		if err := c.setOption(o); err != nil {
			return nil, err
		}
	}
	if err := c.create(); err != nil {
		return nil, err
	}
	mnt, err := unix.Fsmount(c.fd, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC)
	if err != nil {
		return nil, c.explain("fsmount", err)
	}
	return os.NewFile(uintptr(mnt), "overlay view"), nil
}

func (c fsContext) setLower(lower []string) (done func(), err error) {
	for _, l := range lower {
		if err := c.setDir("lowerdir+", l); err != nil {
			return nil, err
		}
	}
	return func() {}, nil
}

// setLowerString names the layers through /proc/self/fd, for kernels before 6.13. An
// option has at most 255 bytes, enough for about 12 layers.
func (c fsContext) setLowerString(lower []string) (done func(), err error) {
	var names []string
	var fds []int
	done = func() {
		for _, fd := range fds {
			unix.Close(fd)
		}
	}
	for _, l := range lower {
		fd, err := openDir(l)
		if err != nil {
			done()
			return nil, err
		}
		fds, names = append(fds, fd), append(names, procPath(fd))
	}
	if err := c.setOption("lowerdir=" + strings.Join(names, ":")); err != nil {
		done()
		return nil, err
	}
	return done, nil
}
