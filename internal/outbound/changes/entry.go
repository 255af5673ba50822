package changes

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/disk"
)

// shape is what an entry is, as far as git distinguishes.
type shape int

const (
	none shape = iota
	file
	link
	directory
	special // a FIFO, a socket or a device
)

// entry is what is at a path.
type entry struct {
	kind shape
	mode uint32
	size int64
	err  error // it could not be looked at
}

// comparable reports whether git would know the entry.
func (e entry) comparable() bool { return e.kind == file || e.kind == link }

// executable is what git keeps of a mode.
func (e entry) executable() bool { return e.kind == file && e.mode&0o100 != 0 }

// gitMode is the mode of a file or a link in a tree of git.
func (e entry) gitMode() string {
	switch {
	case e.kind == link:
		return "120000"
	case e.executable():
		return "100755"
	}
	return "100644"
}

// name names a special file.
func (e entry) name() string {
	switch e.mode & unix.S_IFMT {
	case unix.S_IFIFO:
		return "FIFO"
	case unix.S_IFSOCK:
		return "socket"
	}
	return "device"
}

// look returns what is at a path. What a link or a mount hides is not there.
func (f *finder) look(root *os.File, path string) entry {
	fd, err := disk.Open(root, path, unix.O_PATH)
	if absent(err) {
		return entry{}
	}
	if err != nil {
		return entry{err: err}
	}
	defer fd.Close()
	return entryOf(fd)
}

// entryOf returns what an open file is.
func entryOf(f *os.File) entry {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return entry{err: err}
	}
	e := entry{kind: special, mode: st.Mode, size: st.Size}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		e.kind = file
	case unix.S_IFLNK:
		e.kind = link
	case unix.S_IFDIR:
		e.kind = directory
	}
	return e
}

// absent reports whether an error of opening a path means that nothing is there.
func absent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) || errors.Is(err, unix.EXDEV)
}

// open opens a file, or a link as one that has its target.
func open(root *os.File, path string) (content, error) {
	at, err := disk.Open(root, path, unix.O_PATH)
	if err != nil {
		return content{}, err
	}
	e := entryOf(at)
	switch {
	case e.err != nil:
	case e.kind == link:
		buf := make([]byte, unix.PathMax)
		n, err := unix.Readlinkat(int(at.Fd()), "", buf)
		if err = errors.Join(err, at.Close()); err != nil {
			return content{}, err
		}
		e.size = int64(n)
		return content{entry: e, Reader: bytes.NewReader(buf[:n]), Closer: io.NopCloser(nil)}, nil
	case e.kind != file:
		e.err = fs.ErrNotExist
	}
	if err := errors.Join(e.err, at.Close()); err != nil {
		return content{}, err
	}
	f, err := disk.Open(root, path, unix.O_RDONLY)
	if err != nil {
		return content{}, err
	}
	if e = entryOf(f); e.err != nil || e.kind != file { // it was replaced just now
		return content{}, errors.Join(e.err, fs.ErrNotExist, f.Close())
	}
	return content{entry: e, Reader: f, Closer: f, file: f}, nil
}

// content is an open file, or link, with its size when it was opened.
type content struct {
	entry
	io.Reader
	io.Closer
	file *os.File // nil for a link
}

const chunk = 64 << 10

// same reports whether two files, or two links, are the same to git. The cost is proportional to
// the size of the file before.
func (f *finder) same(path string, now, old entry) (bool, error) {
	if now.kind != old.kind || now.executable() != old.executable() || now.kind == file && now.size != old.size {
		return false, nil
	}
	a, err := open(f.After.Root, path)
	if err != nil {
		return false, err
	}
	defer a.Close()
	b, err := open(f.Before.Root, path)
	if err != nil {
		return false, err
	}
	defer b.Close()
	one, other := make([]byte, chunk), make([]byte, chunk)
	for f.ctx.Err() == nil {
		n, err := io.ReadFull(a, one)
		m, err2 := io.ReadFull(b, other)
		if n != m || !bytes.Equal(one[:n], other[:m]) {
			return false, nil
		}
		if err != nil || err2 != nil {
			return true, readError(err)
		}
	}
	return true, nil
}

// readError is nil at the end of a file.
func readError(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}
