package hostnames

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// file is a file that is followed.
type file struct {
	name     string
	version  version           // of the host's file, as last read
	content  [sha256.Size]byte // the hash of the copy's content
	copied   bool              // there is a copy
	attached bool              // the resolver reads the copy
	read     time.Time
	err      error // of the last look
}

// version changes with a file's content, and with the file itself.
type version struct {
	dev, ino     uint64
	size         int64
	mtime, ctime unix.Timespec
}

// most bounds the size of a file: lists of blocked hosts have some megabytes.
const most = 32 << 20

// minAge is how old a change must be before the version alone says that there is no later one:
// clocks of filesystems tick slowly.
const minAge = 2 * time.Second

// readHost reads a file below the directory host as the host sees it: links lead below host. If the
// file still has the version known, data is nil. The version is zero if the file may be changing.
func readHost(host, name string, known version) (data []byte, v version, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("open /%s: %w", name, err)
		}
	}()
	root, err := unix.Open(host, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, v, err
	}
	defer unix.Close(root)
	fd, err := openIn(root, name)
	if err != nil {
		return nil, v, outside(root, name, err)
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	var s unix.Stat_t
	if err := unix.Fstat(fd, &s); err != nil {
		return nil, v, err
	}
	switch {
	case s.Mode&unix.S_IFMT != unix.S_IFREG:
		return nil, v, errors.New("it is not a regular file")
	case s.Size > most:
		return nil, v, fmt.Errorf("it has %d bytes, and the most is %d", s.Size, most)
	}
	v = version{dev: uint64(s.Dev), ino: s.Ino, size: s.Size, mtime: s.Mtim, ctime: s.Ctim}
	if v == known {
		return nil, v, nil
	}
	data, err = io.ReadAll(io.LimitReader(f, most))
	if err != nil {
		return nil, v, err
	}
	if changed := time.Unix(v.ctime.Unix()); time.Since(changed).Abs() < minAge {
		v = version{}
	}
	return append([]byte{}, data...), v, nil
}

// openIn opens a file to read, with the directory root as the root of links.
func openIn(root int, name string) (fd int, err error) {
	how := unix.OpenHow{
		// A FIFO must not make it wait.
		Flags:   unix.O_RDONLY | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS,
	}
	const tries = 16 // the kernel answers EAGAIN if a rename is under way anywhere
	for range tries {
		if fd, err = unix.Openat2(root, name, &how); !errors.Is(err, unix.EAGAIN) {
			break
		}
	}
	return fd, err
}

// outside adds to an error the target of a link that leads nowhere.
func outside(root int, name string, err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	buffer := make([]byte, unix.PathMax)
	n, linkErr := unix.Readlinkat(root, name, buffer)
	if linkErr != nil {
		return err
	}
	return fmt.Errorf("it is a link to %s, which does not exist, or is neither in /etc nor in /run: %w", filepath.Clean(string(buffer[:n])), err)
}
