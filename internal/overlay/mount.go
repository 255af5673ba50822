package overlay

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// errMounted is wrapped by Mount's error if the target is already a mount point.
var errMounted = errors.New("is already a mount point")

// maxNames is the limit in bytes on all layer paths together. They form one line of
// mountinfo, and the parser that the engine and its runtime use, also on the host, fails
// at the first line above 64 KiB.
const maxNames = 60 << 10

// Spec describes one overlay.
type Spec struct {
	// Source is what mountinfo shows as the mount's source, at most 255
	// bytes; "overlay" if it is empty.
	Source string
	// Lower are the read-only layers, topmost first: at least one, at most
	// 500 (the kernel's limit; some 200 on kernels before 6.13), with at most
	// 60 KiB of paths.
	Lower []string
	// Upper receives the writes, Work belongs to the kernel. Both are on one filesystem.
	// Mounting one Upper twice at the same time corrupts it, and the kernel does not
	// refuse that: call Busy first.
	Upper, Work string
	// Target is the directory to mount on.
	Target string
	// Volatile omits every sync, including those that a process inside asks for. After a
	// crash the upper is worthless, and can be mounted again only after Work was emptied.
	Volatile bool
	// With Metacopy a change of metadata copies no data up, and renaming a lower
	// directory writes a redirect. An upper written with it is meaningless without its
	// lower layers, and must always be mounted with it.
	Metacopy bool
	// With Redirects, renaming a lower directory writes a redirect, as with Metacopy;
	// without either it fails with EXDEV.
	Redirects bool
	// Context is the SELinux context of everything in the overlay, and overrides those of
	// the layers; if empty, theirs apply. A kernel without SELinux refuses it.
	Context string
}

// Mount mounts the overlay, nodev and nosuid. An error includes the kernel's own message,
// if there is one.
func Mount(s Spec) error {
	if err := mount(s); err != nil {
		return fmt.Errorf("mount overlay at %q: %w", s.Target, err)
	}
	return nil
}

func mount(s Spec) error {
	if len(s.Lower) == 0 {
		return errors.New("no lower layer")
	}
	if n := len(strings.Join(s.Lower, ",lowerdir+=")); n > maxNames {
		return fmt.Errorf("the paths of %d lower layers take %d bytes, at most %d are allowed", len(s.Lower), n, maxNames)
	}
	target, err := openDir(s.Target)
	if err != nil {
		return err
	}
	defer unix.Close(target)
	mounted, err := isMountRoot(target)
	if err != nil {
		return err
	}
	if mounted {
		// A second mount would hide this one, and a single Detach would no longer be
		// enough.
		return errMounted
	}
	err = mountDescriptors(s, target)
	if errors.Is(err, errNoDescriptors) {
		if err2 := mountString(s, target); err2 != nil {
			return fmt.Errorf("%w (%w)", err2, err)
		}
		return nil
	}
	return err
}

// mountDescriptors passes the layers as descriptors, which Linux 6.13 and later accept,
// so paths have no limit and need no escapes.
func mountDescriptors(s Spec, target int) error {
	c, err := openContext(s.Source)
	if err != nil {
		return err
	}
	defer c.close()
	for _, l := range s.Lower {
		if err := c.setDir("lowerdir+", l); err != nil {
			return err
		}
	}
	if err := c.setDir("upperdir", s.Upper); err != nil {
		return err
	}
	if err := c.setDir("workdir", s.Work); err != nil {
		return err
	}
	for _, o := range s.options() {
		if err := c.setOption(o); err != nil {
			return err
		}
	}
	if err := c.create(); err != nil {
		return err
	}
	mnt, err := unix.Fsmount(c.fd, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOSUID)
	if err != nil {
		return c.explain("fsmount", err)
	}
	defer unix.Close(mnt)
	return attach(mnt, target)
}

// attach moves the detached mount mnt onto the directory target.
func attach(mnt, target int) error {
	if err := unix.MoveMount(mnt, "", target, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH); err != nil {
		return fmt.Errorf("move_mount: %w", err)
	}
	return nil
}

// mountString mounts with mount(2) for kernels before 6.13. The layers are named through
// /proc/self/fd, because mount(2) silently cuts its options at a page, and a colon or a
// comma in a path would need an escape.
func mountString(s Spec, target int) error {
	var fds []int
	defer func() {
		for _, fd := range fds {
			unix.Close(fd)
		}
	}()
	name := func(dir string) (string, error) {
		fd, err := openDir(dir)
		if err != nil {
			return "", err
		}
		fds = append(fds, fd)
		return procPath(fd), nil
	}
	lower := make([]string, len(s.Lower))
	for i, l := range s.Lower {
		n, err := name(l)
		if err != nil {
			return err
		}
		lower[i] = n
	}
	upper, err := name(s.Upper)
	if err != nil {
		return err
	}
	work, err := name(s.Work)
	if err != nil {
		return err
	}
	options := append([]string{"lowerdir=" + strings.Join(lower, ":"), "upperdir=" + upper, "workdir=" + work}, s.options()...)
	data := strings.Join(options, ",")
	if limit := unix.Getpagesize() - 1; len(data) > limit {
		return fmt.Errorf("%d lower layers need %d bytes of mount options, this kernel takes %d: a newer kernel (6.13) takes 500 layers", len(lower), len(data), limit)
	}
	if err := unix.Mount(source(s.Source), procPath(target), "overlay", unix.MS_NODEV|unix.MS_NOSUID, data); err != nil {
		return fmt.Errorf("mount(2): %w", err)
	}
	return nil
}

// options returns the options that name no directory. All are explicit, because their
// defaults depend on the kernel's configuration.
func (s Spec) options() []string {
	o := []string{"index=off", "nfs_export=off"}
	if s.Metacopy {
		// The kernel refuses metacopy without redirects.
		o = append(o, "redirect_dir=on", "metacopy=on")
	} else if s.Redirects {
		o = append(o, "redirect_dir=on", "metacopy=off")
	} else {
		o = append(o, "redirect_dir=off", "metacopy=off")
	}
	if s.Volatile {
		o = append(o, "volatile")
	}
	if s.Context != "" {
		o = append(o, "context="+s.Context)
	}
	return o
}

func source(s string) string {
	if s == "" {
		return "overlay"
	}
	return s
}

func procPath(fd int) string {
	return "/proc/self/fd/" + strconv.Itoa(fd)
}
