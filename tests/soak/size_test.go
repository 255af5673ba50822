package soak

import (
	"errors"
	"io/fs"
	"path/filepath"
	"syscall"
)

// sizes returns the size of each clone on the disk in bytes, by the name of its repository. It
// counts blocks, and each inode once.
func (s *soak) sizes() (map[string]int64, error) {
	sizes := make(map[string]int64)
	clones := filepath.Join(s.config.DataDir(), "clones")
	for _, r := range s.repos {
		seen := make(map[uint64]bool)
		var dev uint64
		err := filepath.WalkDir(filepath.Join(clones, r.name), func(path string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil // the plugin deletes files meanwhile
			}
			if err != nil {
				return err
			}
			info, err := d.Info()
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err != nil {
				return err
			}
			st := info.Sys().(*syscall.Stat_t)
			if dev == 0 {
				dev = st.Dev
			}
			if st.Dev != dev { // a mounted workspace, whose upper is counted elsewhere
				return fs.SkipDir
			}
			if !seen[st.Ino] {
				seen[st.Ino] = true
				sizes[r.name] += st.Blocks * 512
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return sizes, nil
}
