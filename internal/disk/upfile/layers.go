package upfile

import (
	"errors"
	"io/fs"
	"os"
	"path"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/disk"
)

// Layers are the directories of layers, topmost first.
type Layers []*os.File

// OpenLayers opens the directories of layers, whose parents only the plugin can change.
func OpenLayers(layers []string) (list Layers, err error) {
	for _, layer := range layers {
		dir, err := OpenDir(layer)
		if err != nil {
			list.Close()
			return nil, err
		}
		list = append(list, dir)
	}
	return list, nil
}

// Close closes the directories.
func (l Layers) Close() {
	for _, dir := range l {
		dir.Close()
	}
}

// ParentOf opens the directory above rel in the topmost layer that has rel, and describes rel. The error is
// fs.ErrNotExist if no layer has it, or it is hidden.
func (l Layers) ParentOf(rel string) (dir *os.File, st unix.Stat_t, err error) {
	for _, layer := range l {
		dir, err := disk.Open(layer, path.Dir(rel), unix.O_PATH|unix.O_DIRECTORY)
		if err == nil {
			if st, err = Stat(int(dir.Fd()), path.Base(rel)); err == nil && Kind(&st) != Whiteout {
				return dir, st, nil
			}
			dir.Close()
		}
		switch {
		case err == nil, errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
			return nil, st, fs.ErrNotExist // it is hidden, or a directory above it is
		case !errors.Is(err, fs.ErrNotExist):
			return nil, st, err
		}
	}
	return nil, st, fs.ErrNotExist
}
