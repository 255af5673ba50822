package overlay

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// errMounted is wrapped by Mount's error if the target is already a mount point.
var errMounted = errors.New("is already a mount point")

// Source is what mountinfo shows as the source of the plugin's own mounts.
const Source = "helmdeck-repos"

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
	// directory writes a redirect; without, that fails with EXDEV. An upper written with it is meaningless without its
	// lower layers, and must always be mounted with it.
	Metacopy bool
	// Context is the SELinux context of everything in the overlay, and overrides those of
	// the layers; if empty, theirs apply. A kernel without SELinux refuses it.
	Context string
}

// Mount mounts the overlay, nodev and nosuid. An error includes the kernel's own message,
// if there is one. It is ENOSPC if there is no room for the kernel's directory in Work.
func Mount(s Spec) (err error) {
	defer wrap(&err, "mount overlay at %q", s.Target)
	if len(s.Lower) == 0 {
		return errors.New("no lower layer")
	}
	if n := len(strings.Join(s.Lower, ",lowerdir+=")); n > maxNames {
		return fmt.Errorf("the paths of %d lower layers take %d bytes, at most %d are allowed", len(s.Lower), n, maxNames)
	}
	target, mounted, err := openDir(unix.AT_FDCWD, s.Target)
	if err != nil {
		return err
	}
	defer unix.Close(target)
	if mounted {
		// A second mount would hide this one, and a single Detach would no longer be
		// enough.
		return errMounted
	}
	// Linux 6.13 and later accept descriptors, so paths have no limit and need no escapes.
	layers := append(lowerLayers(s.Lower), layer{"upperdir", s.Upper}, layer{"workdir", s.Work})
	options := append([]string{"source=" + s.source()}, s.options()...)
	filesystem, err := newFilesystem("overlay", options, layers...)
	if errors.Is(err, errNoDescriptors) {
		if err2 := mountString(s, target); err2 != nil {
			return fmt.Errorf("%w (%w)", err2, err)
		}
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(filesystem)
	mnt, err := unix.Fsmount(filesystem, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOSUID)
	if err != nil {
		return explain(filesystem, "fsmount", err)
	}
	defer unix.Close(mnt)
	if err := checkWritable(mnt); err != nil {
		return err
	}
	return attach(mnt, target)
}

// checkWritable checks that an overlay is not read-only. The kernel makes it so, and says so
// only in its log, if it can't make its work directory. Probe has found that it can where
// there is room.
func checkWritable(mnt int) error {
	var st unix.Statfs_t
	if err := unix.Fstatfs(mnt, &st); err != nil {
		return fmt.Errorf("fstatfs: %w", err)
	}
	if st.Flags&unix.ST_RDONLY != 0 {
		return fmt.Errorf("the kernel has no room for its work directory, and the mount would be read-only: %w", unix.ENOSPC)
	}
	return nil
}

// mountString mounts with mount(2) for kernels before 6.13. It names the layers through
// openDirs, because mount(2) silently cuts its options at a page, and a colon or a comma
// in a path would need an escape.
func mountString(s Spec, target int) error {
	var dirs openDirs
	defer dirs.close()
	names, err := dirs.open(append([]string{s.Upper, s.Work}, s.Lower...)...)
	if err != nil {
		return err
	}
	options := append([]string{"upperdir=" + names[0], "workdir=" + names[1], "lowerdir=" + strings.Join(names[2:], ":")}, s.options()...)
	data := strings.Join(options, ",")
	if limit := unix.Getpagesize() - 1; len(data) > limit {
		return fmt.Errorf("%d lower layers need %d bytes of mount options, this kernel takes %d: a newer kernel (6.13) takes 500 layers", len(s.Lower), len(data), limit)
	}
	if err := unix.Mount(s.source(), procPath(target), "overlay", unix.MS_NODEV|unix.MS_NOSUID, data); err != nil {
		return fmt.Errorf("mount(2): %w", err)
	}
	mnt, _, err := openDir(unix.AT_FDCWD, s.Target)
	if err == nil {
		defer unix.Close(mnt)
		err = checkWritable(mnt)
	}
	if err != nil {
		return errors.Join(err, unix.Unmount(s.Target, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW))
	}
	return nil
}

func (s Spec) source() string { return cmp.Or(s.Source, "overlay") }

// options returns the options that name no directory. All are explicit, because their
// defaults depend on the kernel's configuration.
func (s Spec) options() []string {
	onOff := map[bool]string{true: "on", false: "off"}
	// The kernel refuses metacopy without redirects.
	o := []string{"index=off", "nfs_export=off", "redirect_dir=" + onOff[s.Metacopy], "metacopy=" + onOff[s.Metacopy]}
	if s.Volatile {
		o = append(o, "volatile")
	}
	if s.Context != "" {
		o = append(o, "context="+s.Context)
	}
	return o
}
