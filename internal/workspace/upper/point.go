package upper

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/meta"
)

// pointWithin is how long after the mount of a workspace its container gets its mount points. A
// container starts in less than a second on an idle machine.
const pointWithin = 10 * time.Second

// isPoint reports whether an entry is surely an empty file that a runtime has made to mount a file or a
// device on it, as for `-v file:/w/.env`, and not one that the container's own processes made. Nothing
// in the file says so. What is known of it:
//
//   - Root owns it, it is empty, it has one name, and nobody has touched it since it was made: whatever
//     a process does to what it sees at that path it does to the mounted file.
//   - runc before 1.1.14 makes it with the mode 0755, as hardly anybody makes an empty file.
//   - Newer ones make it with 0644, as anybody does. So it counts only if the workspace belongs to
//     another user than root, and if it was made right after the mount, before most containers run.
//
// The caller checks that it is in the place of nothing that the layers have. Anything else is a change,
// because a checkpoint too many is only a nuisance.
func isPoint(e disk.Entry, rec meta.Workspace) bool {
	var st unix.Statx_t
	if unix.Statx(e.Dir, e.Name, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BASIC_STATS|unix.STATX_BTIME, &st) != nil {
		return false
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Size != 0 || st.Nlink != 1 || st.Uid != 0 || st.Gid != 0 ||
		st.Mtime != st.Ctime || st.Mask&unix.STATX_BTIME != 0 && st.Btime != st.Ctime {
		return false
	}
	switch st.Mode &^ unix.S_IFMT {
	case 0o755:
		return true
	case 0o644:
		made := time.Unix(st.Ctime.Sec, int64(st.Ctime.Nsec))
		return rec.UID != 0 && !made.Before(rec.MountedAt.Add(-time.Second)) && made.Before(rec.MountedAt.Add(pointWithin))
	}
	return false
}
