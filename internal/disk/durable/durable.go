package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// TempPrefix begins the name of everything that is incomplete. Build a directory under
// such a name, on the same filesystem and best in the same parent directory
// (os.MkdirTemp(dir, TempPrefix+"*")), then Rename it.
const TempPrefix = ".tmp-"

// IsTemp reports whether name, the last element of a path, is a temporary one.
func IsTemp(name string) bool { return strings.HasPrefix(name, TempPrefix) }

// step is called before each operation that a crash could interrupt; tests crash or fail
// there.
var step = func(op string) error { return nil }

// WriteFile writes data to path with the permissions perm, whatever the umask. It
// replaces an existing file; a process that has that open keeps the old content. After an
// error the file is unchanged, unless the last step, syncing its directory, failed: then
// path has the new content, but a power loss may bring the old one back.
func WriteFile(path string, data []byte, perm fs.FileMode) error {
	return writeFile(path, data, perm, false)
}

// WriteVolatile is WriteFile without a sync: after a power loss path may have either
// content, or be empty.
func WriteVolatile(path string, data []byte, perm fs.FileMode) error {
	return writeFile(path, data, perm, true)
}

func writeFile(path string, data []byte, perm fs.FileMode, volatile bool) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("write %q: %w", path, err)
		}
	}()
	if err := step("create"); err != nil {
		return err
	}
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, TempPrefix+"*")
	if err != nil {
		return err
	}
	err = errors.Join(fill(f, data, perm, volatile), f.Close())
	if err == nil {
		err = RenameVolatile(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	if volatile {
		return nil
	}
	return SyncDir(dir)
}

func fill(f *os.File, data []byte, perm fs.FileMode, volatile bool) error {
	if err := f.Chmod(perm); err != nil {
		return err
	}
	if err := step("write"); err != nil {
		return err
	}
	if _, err := f.Write(data); err != nil || volatile {
		return err
	}
	if err := step("sync"); err != nil {
		return err
	}
	return f.Sync()
}

// Rename renames the file or directory old to new, on the same filesystem, and syncs both
// parents. A file replaces a file; if new is a directory the error is fs.ErrExist. Rename
// does not sync the content of a directory: call SyncFS before if it must survive a power
// loss.
//
// If the sync at the end fails, the rename has happened, but a power loss may undo it.
func Rename(old, new string) error {
	if err := RenameVolatile(old, new); err != nil {
		return err
	}
	from, to := filepath.Dir(old), filepath.Dir(new)
	if err := SyncDir(to); err != nil || from == to {
		return err
	}
	return SyncDir(from)
}

// RenameVolatile is Rename without a sync, for the request path: after a power loss
// exactly one of the two names exists.
func RenameVolatile(old, new string) error {
	if err := step("rename"); err != nil {
		return err
	}
	return os.Rename(old, new)
}

// MkdirAll makes path and its missing parents with the permissions perm, whatever the
// umask, and syncs what it made. An existing directory is not changed; anything else at
// path is an error.
func MkdirAll(path string, perm fs.FileMode) error { return mkdirAll(path, perm, false) }

// MkdirVolatile is MkdirAll without a sync: after a power loss the directories may be
// missing.
func MkdirVolatile(path string, perm fs.FileMode) error { return mkdirAll(path, perm, true) }

func mkdirAll(path string, perm fs.FileMode, volatile bool) error {
	path = filepath.Clean(path)
	info, err := os.Stat(path)
	if err == nil {
		if !info.IsDir() {
			return fmt.Errorf("make directory %q: %w", path, unix.ENOTDIR)
		}
		return nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	parent := filepath.Dir(path)
	if err := mkdirAll(parent, perm, volatile); err != nil {
		return err
	}
	if err := step("mkdir"); err != nil {
		return err
	}
	switch err := os.Mkdir(path, perm); {
	case errors.Is(err, fs.ErrExist):
		// A concurrent call was faster, and may not have synced it yet.
		if info, err := os.Stat(path); err != nil || !info.IsDir() {
			return errors.Join(fmt.Errorf("make directory %q: %w", path, unix.ENOTDIR), err)
		}
	case err != nil:
		return err
	default:
		if err := os.Chmod(path, perm); err != nil {
			return err
		}
	}
	if volatile {
		return nil
	}
	return SyncDir(parent)
}

// SyncFS syncs the whole filesystem that path, a directory, is on. It can take seconds.
func SyncFS(path string) error {
	d, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := unix.Syncfs(int(d.Fd())); err != nil {
		return fmt.Errorf("sync the filesystem of %q: %w", path, err)
	}
	return nil
}

// SyncTree syncs all regular files and directories at path and below, one by one. Use it
// for a few files, because SyncFS also waits for everyone else's writes.
func SyncTree(path string) error {
	// Begin with all files before the first sync, whose commit of the journal then serves
	// them all.
	WriteBack(path)
	return eachFile(path, (*os.File).Sync, SyncDir)
}

// WriteBack makes the kernel begin to write all regular files at path and below, so that a
// later sync waits less. It is a hint, and ignores errors, which the sync reports. Files
// may come and go meanwhile.
func WriteBack(path string) {
	begin := func(f *os.File) error {
		_ = unix.SyncFileRange(int(f.Fd()), 0, 0, unix.SYNC_FILE_RANGE_WRITE)
		return nil
	}
	_ = eachFile(path, begin, func(string) error { return nil })
}

// eachFile calls file for each regular file at path and below, and dir for each directory.
func eachFile(path string, file func(*os.File) error, dir func(path string) error) error {
	return filepath.WalkDir(path, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		switch {
		case d.IsDir():
			return dir(path)
		case d.Type().IsRegular():
			// Not a symlink or a FIFO that has replaced it.
			f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
			if err != nil {
				return err
			}
			return errors.Join(file(f), f.Close())
		}
		return nil
	})
}

// SyncDir syncs the names in a directory.
func SyncDir(dir string) error {
	if err := step("syncdir"); err != nil {
		return err
	}
	d, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY, 0) // not a FIFO: to open one would block
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
