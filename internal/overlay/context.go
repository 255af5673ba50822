package overlay

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// errNoDescriptors means that this kernel, or its overlayfs, does not accept layers as
// descriptors.
var errNoDescriptors = errors.New("the kernel takes no layers as descriptors")

// wrap puts what was done before an error, if there is one.
func wrap(err *error, format string, args ...any) {
	if *err != nil {
		*err = fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), *err)
	}
}

// fsContext is a descriptor of fsopen(2), with which a filesystem is configured.
type fsContext struct{ fd int }

// newContext opens a context for a filesystem of a type with options, "key=value" or "flag".
func newContext(fstype string, options ...string) (fsContext, error) {
	fd, err := unix.Fsopen(fstype, unix.FSOPEN_CLOEXEC)
	if err != nil {
		return fsContext{}, fmt.Errorf("fsopen %s: %w", fstype, err)
	}
	c := fsContext{fd}
	for _, o := range options {
		if key, value, ok := strings.Cut(o, "="); ok {
			err = unix.FsconfigSetString(fd, key, value)
		} else {
			err = unix.FsconfigSetFlag(fd, key)
		}
		if err != nil {
			err = c.explain(o, err)
			c.close()
			return fsContext{}, err
		}
	}
	return c, nil
}

func (c fsContext) close() { unix.Close(c.fd) }

// addLayers passes layers as descriptors, in order. The kernel takes its own references,
// so our limit on descriptors does not limit the layers.
func (c fsContext) addLayers(key string, dirs ...string) error {
	for _, dir := range dirs {
		fd, err := openDir(dir)
		if err != nil {
			return err
		}
		err = unix.FsconfigSetFd(c.fd, key, fd)
		unix.Close(fd)
		if err == nil {
			continue
		}
		explained := c.explain(fmt.Sprintf("%s=%s", key, dir), err)
		// Kernels with the old mount API for overlayfs return EOPNOTSUPP, those before 6.13
		// EINVAL, or EBADF if they don't accept O_PATH. EINVAL can also mean a bad layer:
		// mount(2) will then report that.
		if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EBADF) || errors.Is(err, unix.EOPNOTSUPP) {
			return fmt.Errorf("%w: %w", errNoDescriptors, explained)
		}
		return explained
	}
	return nil
}

// mount makes the superblock and a detached mount of it: closing the descriptor unmounts
// it, unless it was attached.
func (c fsContext) mount(attributes int) (fd int, err error) {
	if err := unix.FsconfigCreate(c.fd); err != nil {
		return -1, c.explain("create", err)
	}
	fd, err = unix.Fsmount(c.fd, unix.FSMOUNT_CLOEXEC, attributes)
	if err != nil {
		return -1, c.explain("fsmount", err)
	}
	return fd, nil
}

// explain adds the messages in the context's log. Each read returns one, with the prefix
// "e ", "w " or "i ".
func (c fsContext) explain(what string, err error) error {
	var words []string
	buf := make([]byte, 4096)
	for {
		n, rerr := unix.Read(c.fd, buf)
		if rerr != nil || n <= 0 {
			break
		}
		m := strings.TrimSpace(string(buf[:n]))
		if len(m) > 2 && m[1] == ' ' {
			m = m[2:]
		}
		words = append(words, m)
	}
	if len(words) == 0 {
		return fmt.Errorf("%s: %w", what, err)
	}
	return fmt.Errorf("%s: %w: %s", what, err, strings.Join(words, "; "))
}

// openDir opens a directory with O_PATH, without following a link at the end of the path.
// At a mount point it opens the root of the topmost mount.
func openDir(dir string) (int, error) {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("open %q: %w", dir, err)
	}
	return fd, nil
}

// openTarget is openDir, and reports whether it opened the root of a mount.
func openTarget(dir string) (fd int, mounted bool, err error) {
	fd, err = openDir(dir)
	if err != nil {
		return -1, false, err
	}
	if mounted, err = isMountRoot(fd); err != nil {
		unix.Close(fd)
		return -1, false, err
	}
	return fd, mounted, nil
}

// isMountRoot reports whether an open directory is the root of a mount.
func isMountRoot(fd int) (bool, error) {
	var st unix.Statx_t
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, 0, &st); err != nil {
		return false, fmt.Errorf("statx: %w", err)
	}
	if st.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT == 0 {
		return false, fmt.Errorf("statx does not tell mount points: %w", unix.ENOSYS)
	}
	return st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0, nil
}

// openDirs are directories that stay open, so that the kernel can find them by names in
// /proc/self/fd. These are short and need no escapes, whatever the paths are.
type openDirs []int

// open opens directories and returns their names.
func (d *openDirs) open(dirs ...string) (names []string, err error) {
	for _, dir := range dirs {
		fd, err := openDir(dir)
		if err != nil {
			return nil, err
		}
		*d, names = append(*d, fd), append(names, procPath(fd))
	}
	return names, nil
}

func (d *openDirs) close() {
	for _, fd := range *d {
		unix.Close(fd)
	}
}

func procPath(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

// Mounted reports whether something is mounted at the directory target. It returns false
// if target does not exist.
func Mounted(target string) (bool, error) {
	fd, mounted, err := openTarget(target)
	switch {
	case err == nil:
		return mounted, unix.Close(fd)
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	}
	return false, err
}

// setPropagation changes the propagation of a mount, and with AT_RECURSIVE also of those
// below it.
func setPropagation(mnt int, propagation uint64, flags uint) error {
	if err := unix.MountSetattr(mnt, "", flags|unix.AT_EMPTY_PATH, &unix.MountAttr{Propagation: propagation}); err != nil {
		return fmt.Errorf("mount_setattr: %w", err)
	}
	return nil
}

// attach moves the detached mount mnt onto the directory target.
func attach(mnt, target int) error {
	if err := unix.MoveMount(mnt, "", target, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH); err != nil {
		return fmt.Errorf("move_mount: %w", err)
	}
	return nil
}
