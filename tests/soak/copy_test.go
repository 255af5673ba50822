package soak

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// entry is a file, a directory or a link of a template.
type entry struct {
	path   string // relative
	mode   fs.FileMode
	stat   *syscall.Stat_t
	data   []byte // of a file that has blocks, or the target of a symlink
	attrs  map[string][]byte
	linkTo string // an earlier path of the same inode; empty if this is the first
}

// template is a directory in memory, with owners, times, extended attributes and hard links.
type template []entry

// readTemplate reads a directory.
func readTemplate(dir string) (t template, err error) {
	inodes := make(map[uint64]string)
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		e := entry{path: rel, mode: info.Mode(), stat: info.Sys().(*syscall.Stat_t), attrs: make(map[string][]byte)}
		switch {
		case d.Type() == fs.ModeSymlink:
			var to string
			to, err = os.Readlink(path)
			e.data = []byte(to)
		case d.Type().IsRegular():
			if e.linkTo = inodes[e.stat.Ino]; e.linkTo == "" {
				inodes[e.stat.Ino] = rel
				if e.stat.Blocks > 0 {
					e.data, err = os.ReadFile(path)
				}
			}
		}
		if err != nil {
			return err
		}
		names := make([]byte, 4096)
		n, err := unix.Llistxattr(path, names)
		if err != nil {
			return err
		}
		for name := range strings.SplitSeq(string(names[:n]), "\x00") {
			if name == "" {
				continue
			}
			value := make([]byte, 4096)
			n, err := unix.Lgetxattr(path, name, value)
			if err != nil {
				return err
			}
			e.attrs[name] = value[:n]
		}
		t = append(t, e)
		return nil
	})
	return t, err
}

// write makes the directory dir, whose parent exists, with the content of the template.
func (t template) write(dir string) error {
	for _, e := range t {
		if err := e.write(dir); err != nil {
			return err
		}
	}
	for _, e := range t { // when nothing changes the times of directories any more
		times := []unix.Timespec{unix.Timespec(e.stat.Atim), unix.Timespec(e.stat.Mtim)}
		if err := unix.UtimesNanoAt(unix.AT_FDCWD, filepath.Join(dir, e.path), times, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return err
		}
	}
	return nil
}

func (e entry) write(dir string) error {
	path := filepath.Join(dir, e.path)
	if e.linkTo != "" {
		return os.Link(filepath.Join(dir, e.linkTo), path)
	}
	var err error
	switch {
	case e.mode.IsDir():
		err = os.Mkdir(path, 0o700)
	case e.mode.Type() == fs.ModeSymlink:
		err = os.Symlink(string(e.data), path)
	default:
		err = os.WriteFile(path, e.data, 0o600)
		if e.data == nil {
			err = errors.Join(err, os.Truncate(path, e.stat.Size)) // a stub of a pack
		}
	}
	err = errors.Join(err, os.Lchown(path, int(e.stat.Uid), int(e.stat.Gid)))
	if e.mode.Type() != fs.ModeSymlink {
		err = errors.Join(err, os.Chmod(path, e.mode.Perm()))
	}
	for name, value := range e.attrs {
		err = errors.Join(err, unix.Lsetxattr(path, name, value, 0))
	}
	return err
}
