package overlay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/moby/sys/mountinfo"

	"github.com/helmdeck/repos/internal/intake"
)

// maxLists bounds the lists of mounts that are read, in bytes: those of a thousand containers have some 30 MB.
const maxLists = 256 << 20

// Seen reports whether a process that this one sees has the overlay at target mounted at
// another place, as a container has. It finds copies that Copies does not count, because
// they do not receive what is mounted at target, and misses those of processes in PID
// namespaces that are not below this one's. The error is ErrNotMounted if nothing is mounted
// at target, the cause of ctx, or ErrUnknown if the lists of mounts are very long, because a container
// may have a hundred thousand of them in each of many namespaces.
func Seen(ctx context.Context, target string) (seen bool, err error) {
	defer wrap(&err, "look for copies of the mount at %q", target)
	at, err := filepath.EvalSymlinks(target) // as mounts are named
	if err != nil {
		return false, err
	}
	own, err := mountinfo.GetMounts(mountinfo.SingleEntryFilter(at))
	if err != nil {
		return false, err
	}
	if len(own) == 0 {
		return false, ErrNotMounted
	}
	elsewhere := func(m *mountinfo.Info) (skip, stop bool) {
		found := m.Major == own[0].Major && m.Minor == own[0].Minor && m.Mountpoint != at
		return !found, found
	}
	processes, err := filepath.Glob("/proc/[0-9]*")
	namespaces, left := make(map[string]bool), io.LimitedReader{N: maxLists}
	for _, p := range processes {
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		ns, err := os.Readlink(filepath.Join(p, "ns/mnt"))
		if err != nil || namespaces[ns] {
			continue // it has ended, or is like another one
		}
		f, err := os.Open(filepath.Join(p, "mountinfo"))
		if err != nil {
			continue
		}
		left.R = intake.Until(ctx, f)
		found, err := mountinfo.GetMountsFromReader(&left, elsewhere)
		f.Close()
		switch {
		case len(found) > 0:
			return true, nil
		case left.N == 0:
			return false, fmt.Errorf("%w: the lists of mounts of this machine's processes have more than %d bytes", ErrUnknown, maxLists)
		case ctx.Err() != nil:
			return false, context.Cause(ctx)
		case err == nil:
			namespaces[ns] = true
		case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, os.ErrProcessDone) && !isGone(p):
			return false, fmt.Errorf("%s: %w", p, err)
		}
	}
	return false, err
}

// isGone reports whether a process has ended.
func isGone(proc string) bool {
	_, err := os.Readlink(filepath.Join(proc, "ns/mnt"))
	return err != nil
}
