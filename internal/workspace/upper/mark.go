package upper

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/disk/upfile"
)

// Mark is the regular file that a container makes to say that others may get what it leaves (publish=marked).
// Its first line may be a label of that: see ReadMark.
const Mark = ".git/helmdeck-publish"

// HasMark reports whether a workspace has the mark. root is an upper that nobody uses, or a mounted workspace.
func HasMark(root string) (has bool, err error) {
	return findMark(root, func(int) error { return nil })
}

// maxLabel is the most bytes of a label.
const maxLabel = 256

// ReadMark is HasMark for an upper that nobody uses, and returns the label too: the first line of the mark, if that is at
// most 256 bytes of printable ASCII, or else nothing.
func ReadMark(root string) (label string, has bool, err error) {
	has, err = findMark(root, func(git int) error {
		fd, err := disk.OpenAt(git, path.Base(Mark), unix.O_RDONLY|unix.O_NONBLOCK)
		if err != nil {
			return err
		}
		f := os.NewFile(uintptr(fd), Mark)
		defer f.Close()
		text, err := io.ReadAll(io.LimitReader(f, maxLabel+1)) // with the end of the line
		line, _, _ := strings.Cut(string(text), "\n")
		if len(line) <= maxLabel && strings.IndexFunc(line, func(r rune) bool { return r < ' ' || r > '~' }) < 0 {
			label = line
		}
		return err
	})
	return label, has, err
}

// TakeMark is HasMark, and removes the mark. What is at its place and no mark stays.
func TakeMark(root string) (had bool, err error) {
	return findMark(root, func(git int) error { return unix.Unlinkat(git, path.Base(Mark), 0) })
}

// findMark calls f with the directory of the mark, if there is one.
func findMark(root string, f func(git int) error) (found bool, err error) {
	git, err := openGit(root)
	if git >= 0 {
		defer unix.Close(git)
		var st unix.Stat_t
		st, err = upfile.Stat(git, path.Base(Mark))
		if found = err == nil && upfile.Kind(&st) == unix.S_IFREG; found {
			err = f(git)
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return found, err
}
