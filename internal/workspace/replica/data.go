package replica

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/disk/upfile"
)

// chunk is how many bytes are copied before the context is looked at again.
const chunk = 4 << 20

// copyData copies the data of a file, or clones it. It counts what that takes.
func (w *worker) copyData(e *entry, in, out *os.File, size int64) (cloned bool, err error) {
	if !w.noClone.Load() {
		err := unix.IoctlFileClone(int(out.Fd()), int(in.Fd()))
		if err == nil {
			st, err := statFile(int(out.Fd()))
			w.result.cloned.Add(min(int64(st.Blocks)*512, int64(st.Size)))
			return true, err
		}
		// Other errors are of this file, as on btrfs if only one of the two has checksums.
		if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOTTY) || errors.Is(err, unix.EXDEV) {
			w.noClone.Store(true)
		}
	}
	if w.live {
		// From now on, a store into a mapping changes the ctime: see the package's documentation.
		const all = unix.SYNC_FILE_RANGE_WAIT_BEFORE | unix.SYNC_FILE_RANGE_WRITE | unix.SYNC_FILE_RANGE_WAIT_AFTER
		if err := unix.SyncFileRange(int(in.Fd()), 0, 0, all); err != nil {
			return false, err
		}
	}
	return false, w.copyExtents(e, in, out, size)
}

// copyExtents copies the data of a file of that size, but not its holes: a container can make exabytes of holes at no
// cost. A file that grows meanwhile is copied to that size.
func (w *worker) copyExtents(e *entry, in, out *os.File, size int64) error {
	var end int64 // of the copy
	for at := int64(0); at < size; {
		data, hole, err := upfile.Extent(in, at, size)
		if err != nil {
			return err
		}
		for at = data; at < hole; {
			if err := w.ctx.Err(); err != nil {
				return err
			}
			n := min(chunk, hole-at)
			if w.held.Add(n) > w.options.Bytes {
				return &LimitError{Bytes, w.options.Bytes}
			}
			e.held += n
			if err := w.write(n); err != nil {
				return err
			}
			from, to := at, at
			done, err := unix.CopyFileRange(int(in.Fd()), &from, int(out.Fd()), &to, int(n), 0)
			done = max(done, 0)
			w.held.Add(int64(done) - n)
			e.held += int64(done) - n
			if errors.Is(err, unix.EINTR) {
				continue
			}
			if err != nil {
				return err
			}
			w.result.copied.Add(int64(done))
			if done == 0 { // it was truncated
				return out.Truncate(size)
			}
			at += int64(done)
			end = at
		}
	}
	if end == size {
		return nil
	}
	return out.Truncate(size)
}
