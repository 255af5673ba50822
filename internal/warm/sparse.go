package warm

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// errTooMuch says that layers have more in them than was recorded of them.
var errTooMuch = errors.New("there is more in its layers than was measured when they were made")

// chunk is how much of a file is copied before the context is looked at.
const chunk = 256 << 10

// copyData copies what is in a file of a size, but not its holes: a container makes
// terabytes of them for nothing.
func (c *copier) copyData(out, in *os.File, size int64) error {
	if c.buf == nil {
		c.buf = make([]byte, chunk)
	}
	for at := int64(0); at < size; {
		data, hole, err := extent(in, at, size)
		if err != nil {
			return err
		}
		for at = data; at < hole; {
			if err := c.ctx.Err(); err != nil {
				return err
			}
			part := c.buf[:min(int64(len(c.buf)), hole-at)]
			if c.room -= int64(len(part)); c.room < 0 {
				return errTooMuch
			}
			if _, err := in.ReadAt(part, at); err != nil {
				if err == io.EOF {
					err = io.ErrUnexpectedEOF
				}
				return err
			}
			if _, err := out.WriteAt(part, at); err != nil {
				return err
			}
			at += int64(len(part))
		}
	}
	return out.Truncate(size)
}

// extent returns where the next data of a file of a size begins, and where it ends.
// A filesystem that does not tell its holes has data all over.
func extent(in *os.File, at, size int64) (data, hole int64, err error) {
	data, err = in.Seek(at, unix.SEEK_DATA)
	switch {
	case errors.Is(err, unix.ENXIO): // none
		return size, size, nil
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.EOPNOTSUPP):
		return at, size, nil
	case err != nil:
		return 0, 0, err
	}
	hole, err = in.Seek(data, unix.SEEK_HOLE)
	return min(data, size), min(hole, size), err
}
