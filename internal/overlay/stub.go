package overlay

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// TakeDataBelow makes f, an empty file of a layer that is being built, stand for the file with the same path
// in a layer below, which has this size in bytes. A mount with Metacopy shows f: its owner, mode, times and inode
// number, with the data of the other file. A mount without Metacopy can't open it.
func TakeDataBelow(f *os.File, size int64) error {
	if err := f.Truncate(size); err != nil {
		return err
	}
	if err := unix.Fsetxattr(int(f.Fd()), "trusted.overlay.metacopy", nil, 0); err != nil {
		return fmt.Errorf("mark %q as a file without data: %w", f.Name(), err)
	}
	return nil
}
