package workspace

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/overlay"
)

// mounted returns the IDs of the workspaces that are mounted. Those that an earlier
// version has mounted in their own directories, where a process on the host has left
// them, are moved to where they belong.
func (m *Manager) mounted() (map[string]bool, error) {
	points, err := overlay.Mounts(m.Root)
	if err != nil {
		return nil, err
	}
	root, err := filepath.EvalSymlinks(m.Root) // as mounts are named
	if err != nil {
		return nil, err
	}
	mounted := make(map[string]bool)
	for _, p := range points {
		rel, err := filepath.Rel(root, p.Path)
		if err != nil {
			return nil, err
		}
		if old, _ := filepath.Match("clones/*/*/workspaces/*/tree", rel); old {
			id := filepath.Base(filepath.Dir(p.Path))
			if err := m.move(p.Path, id); err != nil {
				return nil, err
			}
			mounted[id] = true
		}
		if filepath.Dir(p.Path) == overlay.PointsDir(root) {
			mounted[filepath.Base(p.Path)] = true
		}
	}
	return mounted, m.tidy()
}

// tidy removes the mount points on which nothing is mounted: a process that died has
// left them.
func (m *Manager) tidy() error {
	entries, err := os.ReadDir(overlay.PointsDir(m.Root))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		path := filepath.Join(overlay.PointsDir(m.Root), e.Name())
		if removeErr := os.Remove(path); !errors.Is(removeErr, unix.EBUSY) {
			err = errors.Join(err, removeErr)
		}
	}
	return err
}

func (m *Manager) move(from, id string) error {
	if err := overlay.MakePoint(overlay.PointsDir(m.Root), id); err != nil {
		return err
	}
	if err := overlay.Move(from, filepath.Join(overlay.PointsDir(m.Root), id)); err != nil {
		return err
	}
	_ = os.Remove(from) // it goes with its workspace anyway
	return nil
}
