package overlay

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// View merges layers, topmost first and at least two, to be read. The mount is
// attached nowhere: the descriptor of its root (O_PATH) is all there is, and
// closing it takes the mount down. So a crash leaves none behind.
func View(lower []string) (*os.File, error) {
	f, err := view(lower)
	if err != nil {
		return nil, fmt.Errorf("view %d layers: %w", len(lower), err)
	}
	return f, nil
}

func view(lower []string) (*os.File, error) {
	if len(lower) < 2 {
		return nil, errors.New("the kernel takes no fewer than two")
	}
	c, err := openContext("view")
	if err != nil {
		return nil, err
	}
	defer c.close()
	for _, l := range lower {
		if err = c.setDir("lowerdir+", l); err != nil {
			break
		}
	}
	if errors.Is(err, errNoDescriptors) { // kernels before 6.13
		var fds []string
		for _, l := range lower {
			fd, err := openDir(l)
			if err != nil {
				return nil, err
			}
			defer unix.Close(fd) // open until create
			fds = append(fds, procPath(fd))
		}
		err = c.setOption("lowerdir=" + strings.Join(fds, ":"))
	}
	if err != nil {
		return nil, err
	}
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
