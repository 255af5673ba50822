package quarantine

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/disk"
)

// openDir opens a directory below dir. The error of one that is not there is fs.ErrNotExist.
func openDir(dir *os.File, rel string) (*os.File, error) {
	f, err := disk.Open(dir, rel, unix.O_DIRECTORY)
	if err != nil {
		return nil, strange(rel, "a directory", err)
	}
	return f, nil
}

// file is an open regular file of a container, as it was when it was opened.
type file struct {
	*os.File
	rel string
	was unix.Stat_t
}

// openFile opens a regular file below dir. A device can't be opened, because every mount of a
// workspace is nodev. The error of one that is not there, or that is a
// directory, is fs.ErrNotExist or unix.EISDIR.
func openFile(dir *os.File, rel string) (*file, error) {
	f, err := disk.Open(dir, rel, 0)
	if err != nil {
		return nil, strange(rel, "a file", err)
	}
	out := &file{File: f, rel: rel}
	err = unix.Fstat(int(f.Fd()), &out.was)
	switch kind := out.was.Mode & unix.S_IFMT; {
	case err != nil:
	case kind == unix.S_IFDIR:
		err = unix.EISDIR
	case kind != unix.S_IFREG:
		err = strange(rel, "a file", unix.EINVAL)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return out, nil
}

// size is in bytes, when the file was opened.
func (f *file) size() int64 { return f.was.Size }

// changed reports whether the file was written to since it was opened, or is no longer there.
func (f *file) changed() bool {
	var now unix.Stat_t
	err := unix.Fstat(int(f.Fd()), &now)
	return err != nil || now.Size != f.was.Size || now.Ctim != f.was.Ctim || now.Mtim != f.was.Mtim
}

// readFile returns the content of a regular file of at most max bytes.
func readFile(dir *os.File, rel string, max int64) ([]byte, error) {
	f, err := openFile(dir, rel)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, max+1))
	if err != nil {
		return nil, strange(rel, "a file", err)
	}
	if int64(len(data)) > max {
		return nil, refuse(TooLarge, "the file %q in .git of the workspace has more than %d bytes", rel, max)
	}
	return data, nil
}

// strange explains why a path of the container can't be used. What is not there, or has a file
// among its parents, stays an error that callers can compare.
func strange(rel, want string, err error) error {
	if at, ok := errors.AsType[*fs.PathError](err); ok {
		err = at.Err // without the path, which is named below
	}
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.EISDIR):
		return err
	case errors.Is(err, unix.ENOTDIR) && want == "a file":
		return os.ErrNotExist
	}
	return refuse(Unusable, "%q in .git of the workspace is not %s that can be read (%v): links, mounts, FIFOs and devices are not followed", rel, want, err)
}

// readNames lists a directory of at most max entries, which are few.
func (r *Repo) readNames(rel string, max int) (all []fs.DirEntry, err error) {
	err = r.eachName(rel, max, func(e fs.DirEntry) error {
		all = append(all, e)
		return nil
	})
	slices.SortFunc(all, func(a, b fs.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
	return all, err
}

// eachName calls f with each entry of a directory, of which it may have at most max, in any order. An error of f ends it.
func (r *Repo) eachName(rel string, max int, f func(fs.DirEntry) error) error {
	d, err := openDir(r.dir, rel)
	if err != nil {
		return err
	}
	defer d.Close()
	for n := 0; ; {
		if r.ctx.Err() != nil {
			return context.Cause(r.ctx)
		}
		some, err := d.ReadDir(1000)
		if n += len(some); n > max {
			return refuse(TooLarge, "%q in .git of the workspace has too many entries", rel)
		}
		for _, e := range some {
			if err := f(e); err != nil {
				return err
			}
		}
		if len(some) == 0 || err != nil { // io.EOF, or it was removed meanwhile
			return nil
		}
	}
}
