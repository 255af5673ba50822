package warm

import (
	"errors"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/disk/upfile"
	"github.com/helmdeck/repos/internal/meta"
)

// HasCache reports whether a clone has a cache and, if rel is not empty, whether something is published at that
// path below it. uid limits that to one uid, if it is not nil. It follows no link of those that workspaces
// published.
func (m *Manager) HasCache(clone string, uid *uint32, rel string) (bool, error) {
	for _, h := range m.cacheHeads(clone, uid) {
		if has, err := m.cacheHas(h, rel); has || err != nil {
			return has, err
		}
	}
	return false, nil
}

// nothingThere are the errors for a path at which nothing is, or that leads through a file or a link.
var nothingThere = []error{os.ErrNotExist, unix.ENOTDIR, unix.ELOOP, unix.ENAMETOOLONG}

func (m *Manager) cacheHas(h meta.WarmHead, rel string) (bool, error) {
	if rel == "" {
		return true, nil
	}
	h, held := m.holdHead(h)
	defer func() { m.Drop(h.Clone, held) }()
	for _, id := range h.Chain {
		if l, _ := m.config.Layers.Set(h.Clone).Get(meta.WarmLayer, id); l.Cache != meta.CacheFiles {
			continue // the base has the directories of all tools
		}
		dir, err := upfile.OpenDir(m.cacheDirs(h.Clone, []string{id})[0])
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return false, err
		}
		f, err := disk.Open(dir, rel, unix.O_PATH)
		_ = dir.Close()
		switch {
		case err == nil:
			return true, f.Close()
		case !slices.ContainsFunc(nothingThere, func(none error) bool { return errors.Is(err, none) }):
			return false, err
		}
	}
	return false, nil
}
