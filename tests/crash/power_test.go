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

// losePower puts the data into a state that a loss of power may leave: no mounts, another boot ID,
// and empty files wherever no record says that a sync has succeeded. The leases and the files of
// their workspaces are lost.
func (w *world) losePower() {
	w.Helper()
	w.must(testdir.DetachBelow(filepath.Join(w.dir, "disk")))
	w.config.Env = append(w.config.Env, "HELMDECK_BOOT=another")
	state, err := invariant.State(w.config.DataDir())
	w.must(err)
	saved, err := w.savedByText()
	w.must(err)
	for text := range w.checkpoints { // a workspace that had ended was perhaps not yet a checkpoint
		if saved[text] == nil {
			delete(w.checkpoints, text)
		}
	}
	clones := w.path("clones")
	for sub, layers := range map[string]map[string]meta.Layer{"trees": state.Trees, "refs": state.GitLayers} {
		for _, l := range layers {
			if !l.Durable {
				w.must(truncateFiles(filepath.Join(clones, l.Clone, sub, l.ID)))
			}
		}
	}
	for _, l := range state.WarmLayers {
		if !l.Durable {
			w.must(truncateFiles(filepath.Join(clones, l.Clone, "warm", l.ID, "files"))) // the indexes beside it are those of trees
		}
	}
	for _, ws := range state.Workspaces {
		if ws.Phase != meta.Checkpoint && ws.Mode != "keep" {
			w.must(truncateFiles(filepath.Join(clones, ws.Clone, "workspaces", ws.ID, "upper")))
		}
	}
	w.must(damageEnd(w.path("audit", "audit.jsonl")))
	clear(w.leases)
}

// damageEnd writes zeros over the end of a file, as a filesystem may have them in blocks that were
// not synced.
func damageEnd(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	zeros := make([]byte, min(info.Size(), 700))
	_, err = f.WriteAt(zeros, info.Size()-int64(len(zeros)))
	return err
}

// truncateFiles empties the files below dir, except those with more than one hard link: these are
// packs, which a fetch has synced.
func truncateFiles(dir string) error {
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
