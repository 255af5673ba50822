package crash

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/tests/invariant"
	"github.com/helmdeck/repos/tests/testdir"
)

// losePower leaves what a loss of power may leave: no mounts, another boot, and nothing in the files that no record says
// are on disk. Leases and what was written for them are gone with it.
func (w *world) losePower() {
	w.Helper()
	w.must(testdir.DetachBelow(filepath.Join(w.dir, "disk")))
	w.config.Env = append(w.config.Env, "HELMDECK_BOOT=another")
	state, err := invariant.State(w.config.DataDir())
	w.must(err)
	found, err := w.found()
	w.must(err)
	for text := range w.discards { // those that had ended and were no discards yet
		if found[text] == nil {
			delete(w.discards, text)
		}
	}
	clones := w.path("clones")
	for sub, layers := range map[string]map[string]meta.Layer{"trees": state.Trees, "refs": state.GitLayers} {
		for _, l := range layers {
			if !l.Durable {
				w.must(spoil(filepath.Join(clones, l.Clone, sub, l.ID)))
			}
		}
	}
	for _, l := range state.WarmLayers {
		if !l.Durable {
			w.must(spoil(filepath.Join(clones, l.Clone, "warm", l.ID)))
		}
	}
	for _, ws := range state.Workspaces {
		if ws.Phase != meta.Discarded && ws.Mode != "keep" {
			w.must(spoil(filepath.Join(clones, ws.Clone, "workspaces", ws.ID, "upper")))
		}
	}
	clear(w.leases)
}

// spoil empties the files below dir, but for those that are in other places too: packs, which a fetch has synced.
func spoil(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Sys().(*syscall.Stat_t).Nlink == 1 {
			err = os.Truncate(path, 0)
		}
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return err
	})
}
