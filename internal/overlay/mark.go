package overlay

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// mark is the attribute that Mark sets. It has the prefix of overlayfs's own attributes, so a copy that
// loses those loses it too, and no overlay shows it: a container, even one with all capabilities, neither
// reads, sets nor removes it at the root of its workspace.
const mark = "trusted.overlay.helmdeck"

// Mark marks a directory that becomes an upper or a layer. A copy of the directory that was made
// without the extended attributes on which overlays depend has no mark.
func Mark(dir string) error {
	if err := unix.Lsetxattr(dir, mark, []byte("y"), 0); err != nil {
		return fmt.Errorf("mark %q: %w", dir, err)
	}
	return nil
}

// Marked reports whether a directory still has the mark of Mark. The error is fs.ErrNotExist if there is
// no such directory.
func Marked(dir string) (bool, error) {
	_, err := unix.Lgetxattr(dir, mark, nil)
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, unix.ENODATA), errors.Is(err, unix.EOPNOTSUPP):
		return false, nil
	}
	return false, fmt.Errorf("look for the mark of %q: %w", dir, err)
}
