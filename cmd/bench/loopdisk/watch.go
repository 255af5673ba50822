package loopdisk

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Watch counts the directories that any process reads on one filesystem, with fanotify.
type Watch int

// NewWatch watches the filesystem of dir.
func NewWatch(dir string) (Watch, error) {
	fd, err := unix.FanotifyInit(unix.FAN_CLASS_NOTIF|unix.FAN_NONBLOCK|unix.FAN_CLOEXEC|unix.FAN_UNLIMITED_QUEUE, unix.O_RDONLY|unix.O_LARGEFILE|unix.O_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("fanotify: %w", err)
	}
	if err := unix.FanotifyMark(fd, unix.FAN_MARK_ADD|unix.FAN_MARK_FILESYSTEM, unix.FAN_ACCESS|unix.FAN_ONDIR, unix.AT_FDCWD, dir); err != nil {
		return -1, errors.Join(fmt.Errorf("fanotify on %s: %w", dir, err), unix.Close(fd))
	}
	return Watch(fd), nil
}

// Close ends the watch.
func (w Watch) Close() error { return unix.Close(int(w)) }

// Read returns how many directories were read since the last call. A directory that was read
// twice may count once.
func (w Watch) Read() (directories int, err error) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := unix.Read(int(w), buffer)
		if errors.Is(err, unix.EAGAIN) {
			return directories, nil
		}
		if err != nil {
			return directories, fmt.Errorf("fanotify: %w", err)
		}
		for rest := buffer[:n]; len(rest) >= int(unsafe.Sizeof(unix.FanotifyEventMetadata{})); {
			var event unix.FanotifyEventMetadata
			if _, err := binary.Decode(rest, binary.NativeEndian, &event); err != nil {
				return directories, err
			}
			rest = rest[event.Event_len:]
			if event.Fd < 0 {
				continue
			}
			// The kernel also reports files that were read.
			var st unix.Stat_t
			err := errors.Join(unix.Fstat(int(event.Fd), &st), unix.Close(int(event.Fd)))
			if err != nil {
				return directories, err
			}
			if st.Mode&unix.S_IFMT == unix.S_IFDIR {
				directories++
			}
		}
	}
}
