package overlay

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"golang.org/x/sys/unix"
)

// errNoDescriptors means that this kernel, or its overlayfs, does not accept layers as
// descriptors.
var errNoDescriptors = errors.New("the kernel takes no layers as descriptors")

// fsContext is a descriptor of fsopen(2), with which an overlay is configured.
type fsContext struct{ fd int }

func openContext(src string) (fsContext, error) {
	fd, err := unix.Fsopen("overlay", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return fsContext{}, fmt.Errorf("fsopen overlay: %w", err)
	}
	c := fsContext{fd}
	if err := unix.FsconfigSetString(fd, "source", source(src)); err != nil {
		err = c.explain("source", err)
		c.close()
		return fsContext{}, err
	}
	return c, nil
}

func (c fsContext) close() { unix.Close(c.fd) }

// setDir passes a layer as a descriptor. The kernel takes its own reference, so our limit
// on descriptors does not limit the layers.
func (c fsContext) setDir(key, dir string) error {
	fd, err := openDir(dir)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	err = unix.FsconfigSetFd(c.fd, key, fd)
	if err == nil {
		return nil
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

// setOption sets "key=value" or the flag "key".
func (c fsContext) setOption(o string) error {
	key, value, ok := strings.Cut(o, "=")
	var err error
	if ok {
		err = unix.FsconfigSetString(c.fd, key, value)
	} else {
		err = unix.FsconfigSetFlag(c.fd, key)
	}
	if err != nil {
		return c.explain(o, err)
	}
	return nil
}

// create makes the superblock, which lives as long as the descriptor or a mount of it.
func (c fsContext) create() error {
	if err := unix.FsconfigCreate(c.fd); err != nil {
		return c.explain("create", err)
	}
	return nil
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

// Mounted reports whether something is mounted at the directory target. It returns false
// if target does not exist.
func Mounted(target string) (bool, error) {
	fd, err := openDir(target)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer unix.Close(fd)
	return isMountRoot(fd)
}

// isMountRoot reports whether fd is the root of a mount.
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
