package overlay

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/disk"
)

// Features are the optional abilities of the kernel and the filesystem.
type Features struct {
	// Volatile reports whether Spec.Volatile works.
	Volatile bool
	// Metacopy reports whether Spec.Metacopy works, redirects included.
	Metacopy bool
}

// probeDir is a fixed name, so that the next Probe finds and removes the leftovers of a
// crash.
const probeDir = ".overlay-probe"

// busyTries and busyPause bound how long Probe waits for other processes to drop
// accidental copies of its descriptor.
const (
	busyTries = 40
	busyPause = 50 * time.Millisecond
)

// Probe mounts scratch overlays below dir and reports what works. The error says why overlays
// below dir are impossible and what to do, or is disk.NoRoom if the disk is too full to tell. It
// leaves nothing behind. Only one Probe of a directory may run at a time.
func Probe(dir string) (Features, error) {
	root := filepath.Join(dir, probeDir)
	f, err := probe(root)
	if cerr := removeProbe(root); err == nil && cerr != nil {
		return Features{}, fmt.Errorf("probe overlay in %q: %w", dir, cerr)
	}
	if disk.NoRoom(err) { // which says nothing about what works
		return Features{}, fmt.Errorf("probe overlay in %q: %w", dir, err)
	}
	if err != nil {
		return Features{}, fmt.Errorf("overlay mounts do not work in %q: %w: %s", dir, err, remedy(dir, err))
	}
	return f, nil
}

func probe(root string) (Features, error) {
	if err := removeProbe(root); err != nil {
		return Features{}, err
	}
	if err := os.Mkdir(root, 0o700); err != nil {
		return Features{}, err
	}
	var f Features
	// Volatile comes first: without it each unmount below would sync the whole
	// filesystem.
	err := try(filepath.Join(root, "volatile"), Spec{Volatile: true}, nil)
	if disk.NoRoom(err) {
		return Features{}, err
	}
	f.Volatile = err == nil
	if err := try(filepath.Join(root, "basic"), Spec{Volatile: f.Volatile}, checkBasics); err != nil {
		return Features{}, err
	}
	if err := checkFree(filepath.Join(root, "free")); err != nil {
		return Features{}, err
	}
	err = try(filepath.Join(root, "metacopy"), Spec{Volatile: f.Volatile, Metacopy: true}, checkMetacopy)
	if disk.NoRoom(err) {
		return Features{}, err
	}
	f.Metacopy = err == nil
	return f, nil
}

// removeProbe deletes root, mounts included.
func removeProbe(root string) error {
	if _, err := os.Lstat(root); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	mounts, err := Mounts(root)
	if err != nil {
		return err
	}
	for _, m := range mounts {
		release, err := Detach(m.Path)
		if errors.Is(err, ErrNotMounted) {
			continue // removed together with another one, see Mounts
		}
		if err != nil {
			return err
		}
		if err := release(); err != nil {
			return err
		}
	}
	return os.RemoveAll(root)
}

// try mounts an overlay in the new directory dir, with a file and a directory in its
// lower layer, and calls check, which may be nil.
func try(dir string, s Spec, check func(dir string) error) error {
	s.Source = "probe"
	s.Lower = []string{filepath.Join(dir, "lower")}
	s.Upper, s.Work, s.Target = filepath.Join(dir, "upper"), filepath.Join(dir, "work"), filepath.Join(dir, "tree")
	for _, d := range []string{filepath.Join(s.Lower[0], "dir"), s.Upper, s.Work, s.Target} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(s.Lower[0], "file"), []byte("data"), 0o600); err != nil {
		return err
	}
	if err := Mount(s); err != nil {
		return err
	}
	var err error
	if check != nil {
		err = check(dir)
	}
	release, derr := Detach(s.Target)
	if derr == nil {
		derr = release()
	}
	return errors.Join(err, derr)
}

// checkFree checks that an upper counts as free when its overlay has ended. The overlays are those that Busy makes,
// which have no mount: a container that starts has a copy of every mount until it has cleaned up, so an overlay with a
// mount may count as in use for as long as the machine is busy.
func checkFree(dir string) error {
	upper, scratch := filepath.Join(dir, "upper"), filepath.Join(dir, "scratch")
	if err := os.MkdirAll(upper, 0o700); err != nil {
		return err
	}
	if busy, err := Busy(upper, scratch); err != nil {
		return err
	} else if busy {
		return errors.New("a new directory counts as in use")
	}
	busy, err := Busy(upper, scratch)
	// A process that forks has a copy of the descriptor until it executes its program.
	for try := 0; err == nil && busy && try < busyTries; try++ {
		time.Sleep(busyPause)
		busy, err = Busy(upper, scratch)
	}
	if err == nil && busy {
		err = errors.New("an overlay that has ended counts as in use")
	}
	return err
}

// checkBasics tries what every workspace needs.
func checkBasics(dir string) error {
	tree, upper := filepath.Join(dir, "tree"), filepath.Join(dir, "upper")
	if err := os.WriteFile(filepath.Join(tree, "new"), []byte("data"), 0o600); err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(tree, "file")); err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Lstat(filepath.Join(upper, "file"), &st); err != nil {
		return fmt.Errorf("whiteout: %w", err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFCHR || st.Rdev != 0 {
		return errors.New("a removed file left no whiteout")
	}
	if err := Bind(filepath.Join(dir, "lower"), tree, "dir", false); err != nil {
		return err
	}
	busy, err := Busy(upper, filepath.Join(dir, "scratch"))
	if err == nil && !busy {
		err = errors.New("a mounted overlay counts as free")
	}
	return err
}

// checkMetacopy checks the effects, because a kernel that can't do it on this filesystem
// mounts without an error.
func checkMetacopy(dir string) error {
	tree, upper := filepath.Join(dir, "tree"), filepath.Join(dir, "upper")
	if err := os.Chmod(filepath.Join(tree, "file"), 0o644); err != nil {
		return err
	}
	if _, err := unix.Lgetxattr(filepath.Join(upper, "file"), "trusted.overlay.metacopy", nil); err != nil {
		return fmt.Errorf("metacopy: %w", err)
	}
	if err := os.Rename(filepath.Join(tree, "dir"), filepath.Join(tree, "moved")); err != nil {
		return fmt.Errorf("redirect: %w", err)
	}
	return nil
}

// CheckContext mounts a scratch overlay below dir with an SELinux context, and returns
// the kernel's error. It leaves nothing behind, and must not run concurrently with Probe.
func CheckContext(dir, context string) error {
	root := filepath.Join(dir, probeDir)
	err := removeProbe(root)
	if err == nil {
		err = try(filepath.Join(root, "context"), Spec{Volatile: true, Context: context}, nil)
	}
	if _, statErr := os.Stat("/sys/fs/selinux/enforce"); err != nil && errors.Is(statErr, fs.ErrNotExist) {
		err = fmt.Errorf("%w: this kernel runs without SELinux", err)
	}
	return errors.Join(err, removeProbe(root))
}

// inUserNamespace reports whether this process is known to be outside of the initial user
// namespace, the only one that maps every ID to itself.
func inUserNamespace() bool {
	data, err := os.ReadFile("/proc/self/uid_map")
	return err == nil && !slices.Equal(strings.Fields(string(data)), []string{"0", "0", "4294967295"})
}

// remedy guesses why overlays failed, and says what a user can do.
func remedy(dir string, err error) string {
	if inUserNamespace() {
		return "this process is in a user namespace, as with a rootless engine, where the kernel allows no overlay of the kind that is " +
			"needed (trusted attributes, an index), and where nothing can grant it: use an engine that runs as root"
	}
	const elsewhere = "put the data on a local filesystem such as ext4 or xfs"
	var st unix.Statfs_t
	if unix.Statfs(dir, &st) == nil {
		names := map[int64]string{
			unix.OVERLAYFS_SUPER_MAGIC: "an overlay",
			unix.NFS_SUPER_MAGIC:       "NFS",
			unix.CIFS_SUPER_MAGIC:      "CIFS",
			unix.SMB2_SUPER_MAGIC:      "SMB",
			unix.FUSE_SUPER_MAGIC:      "FUSE",
		}
		if name, ok := names[int64(st.Type)]; ok {
			return fmt.Sprintf("it is on %s, which cannot carry the upper directory: %s", name, elsewhere)
		}
	}
	switch {
	case errors.Is(err, unix.EPERM):
		return "it takes CAP_SYS_ADMIN: grant it"
	case errors.Is(err, unix.ENODEV):
		return "the kernel has no overlayfs: modprobe overlay on the host"
	case errors.Is(err, unix.ENOSYS):
		return "it takes Linux 5.12 or later"
	}
	return elsewhere
}
