package soak

import (
	"errors"
	"io/fs"
	"path/filepath"
	"syscall"
)

// sizes returns what the clones take on the disk, by the name of their repository: blocks, each inode once.
func (s *soak) sizes() (map[string]int64, error) {
	sizes := make(map[string]int64)
	clones := filepath.Join(s.config.DataDir(), "clones")
	for _, r := range s.repos {
		seen := make(map[uint64]bool)
		var dev uint64
		err := filepath.WalkDir(filepath.Join(clones, r.name), func(path string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil // it goes while we look
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
			if st.Dev != dev { // a workspace that is mounted: its upper is counted
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
