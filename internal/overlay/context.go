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

// layer is a directory for the option key of an overlay: lowerdir+, upperdir or workdir.
type layer struct{ key, dir string }

// lowerLayers returns the read-only layers in dirs, topmost first.
func lowerLayers(dirs []string) []layer {
	layers := make([]layer, len(dirs))
	for i, dir := range dirs {
		layers[i] = layer{"lowerdir+", dir}
	}
	return layers
}

// newFilesystem makes a filesystem of a type with options, "key=value" or "flag", and layers, which it passes
// as descriptors, in order: the kernel takes its own references, so our limit on descriptors does not limit
// the layers. The result is for fsmount(2). The error has the kernel's own message, and is errNoDescriptors
// if the kernel does not accept layers so.
func newFilesystem(fstype string, options []string, layers ...layer) (_ int, err error) {
	fd, err := unix.Fsopen(fstype, unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("fsopen %s: %w", fstype, err)
	}
	defer func() {
		if err != nil {
			unix.Close(fd)
		}
	}()
	for _, o := range options {
		if key, value, ok := strings.Cut(o, "="); ok {
			err = unix.FsconfigSetString(fd, key, value)
		} else {
			err = unix.FsconfigSetFlag(fd, key)
		}
		if err != nil {
			return -1, explain(fd, o, err)
		}
	}
	for _, l := range layers {
		dir, _, err := openDir(unix.AT_FDCWD, l.dir)
		if err != nil {
			return -1, err
		}
		err = unix.FsconfigSetFd(fd, l.key, dir)
		unix.Close(dir)
		if err == nil {
			continue
		}
		explained := explain(fd, fmt.Sprintf("%s=%s", l.key, l.dir), err)
		// Kernels with the old mount API for overlayfs return EOPNOTSUPP, those before 6.13
		// EINVAL, or EBADF if they don't accept O_PATH. EINVAL can also mean a bad layer:
		// mount(2) will then report that.
		if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EBADF) || errors.Is(err, unix.EOPNOTSUPP) {
			return -1, fmt.Errorf("%w: %w", errNoDescriptors, explained)
		}
		return -1, explained
	}
	if err := unix.FsconfigCreate(fd); err != nil {
		return -1, explain(fd, "create", err)
	}
	return fd, nil
}

// explain adds the messages in the log of a descriptor of fsopen(2). Each read returns one, with the prefix
// "e ", "w " or "i ".
func explain(fd int, what string, err error) error {
	var words []string
	buf := make([]byte, 4096)
	for {
		n, rerr := unix.Read(fd, buf)
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

// openDir opens the directory name below the directory at, or at a path with unix.AT_FDCWD. It opens with
// O_PATH, and does not follow a link at the end of name. At a mount point it opens the root of the topmost
// mount. mounted reports whether that is the root of a mount.
func openDir(at int, name string) (fd int, mounted bool, err error) {
	fd, err = unix.Openat(at, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, false, fmt.Errorf("open %q: %w", name, err)
	}
	var st unix.Statx_t
	if err = unix.Statx(fd, "", unix.AT_EMPTY_PATH, 0, &st); err != nil {
		err = fmt.Errorf("statx: %w", err)
	} else if st.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT == 0 {
		err = fmt.Errorf("statx does not tell mount points: %w", unix.ENOSYS)
	}
	if err != nil {
		unix.Close(fd)
		return -1, false, err
	}
	return fd, st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0, nil
}

// openDirs are directories that stay open, so that the kernel can find them by names in
// /proc/self/fd. These are short and need no escapes, whatever the paths are.
type openDirs []int

// open opens directories and returns their names.
func (d *openDirs) open(dirs ...string) (names []string, err error) {
	for _, dir := range dirs {
		fd, _, err := openDir(unix.AT_FDCWD, dir)
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
	fd, mounted, err := openDir(unix.AT_FDCWD, target)
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
