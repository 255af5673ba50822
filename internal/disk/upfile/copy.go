package upfile

import (
	"context"
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// ErrTooMuch means that layers have more data than their records say.
var ErrTooMuch = errors.New("its layers have more data than was measured when they were made")

// Chunk is how many bytes of a file are copied before the context is checked again. The
// kernel limits an attribute's value, and the list of all names, to a quarter of it.
const Chunk = 256 << 10

// Copier copies the data of files.
type Copier struct {
	Ctx  context.Context
	Room int64  // bytes that may still be copied; after that the error is ErrTooMuch
	Buf  []byte // of the size Chunk
}

// NewCopier returns a Copier for so many bytes.
func NewCopier(ctx context.Context, room int64) Copier {
	return Copier{Ctx: ctx, Room: room, Buf: make([]byte, Chunk)}
}

// CopyData copies the data of a file of that size, but not its holes, because a container
// can make terabytes of holes at no cost.
func (c *Copier) CopyData(in, out *os.File, size int64) error {
	for at := int64(0); at < size; {
		data, hole, err := Extent(in, at, size)
		if err != nil {
			return err
		}
		for at = data; at < hole; {
			if err := c.Ctx.Err(); err != nil {
				return err
			}
			part := c.Buf[:min(Chunk, hole-at)]
			if c.Room -= int64(len(part)); c.Room < 0 {
				return ErrTooMuch
			}
			if _, err := in.ReadAt(part, at); err != nil {
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

// Extent returns the begin and the end of the next data in a file of that size. If the
// filesystem does not report holes, all of the file is data.
func Extent(in *os.File, at, size int64) (data, hole int64, err error) {
	data, err = in.Seek(at, unix.SEEK_DATA)
	switch {
	case errors.Is(err, unix.ENXIO): // only a hole is left
		return size, size, nil
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.EOPNOTSUPP):
		return at, size, nil
	case err != nil:
		return 0, 0, err
	}
	hole, err = in.Seek(data, unix.SEEK_HOLE)
	if errors.Is(err, unix.ENXIO) { // it was cut off meanwhile
		return size, size, nil
	}
	return min(data, size), min(hole, size), err
}
