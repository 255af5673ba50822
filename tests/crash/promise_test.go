package crash

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/tests/invariant"
	"github.com/helmdeck/repos/tests/testgit"
)

// checkPromises returns an error that lists every answer of the plugin that no longer holds.
func (w *world) checkPromises() error {
	var errs []error
	list, err := w.d.List(context.Background())
	errs = append(errs, err)
	present := make(map[string]bool)
	for _, v := range list {
		present[v.Name] = true
		if !w.volumes[v.Name] && !w.unsure[v.Name] {
			errs = append(errs, fmt.Errorf("volume %q exists, but was not created or was removed", v.Name))
		}
	}
	for name := range w.volumes {
		if !present[name] && !w.unsure[name] {
			errs = append(errs, fmt.Errorf("volume %q was lost", name))
		}
	}
	saved, err := w.savedByText()
	errs = append(errs, err)
	for text := range w.checkpoints {
		if saved[text] == nil {
			errs = append(errs, fmt.Errorf("the checkpoint with %q was lost", text))
		}
	}
	for name, text := range w.kept {
		if saved[keptKey(name, text)] == nil && !((w.unsure[name] || w.unsure[unmounted(name)]) && saved[text] != nil) {
			errs = append(errs, fmt.Errorf("the kept workspace of volume %q with %q was lost: %+v", name, text, saved[text]))
		}
	}
	for l, h := range w.leases {
		if err := checkWorkspace(h); err != nil && !(w.unsure[l] && (saved[h.text] != nil || h.text == "")) {
			errs = append(errs, fmt.Errorf("%v: %w", l, err))
		}
	}
	return errors.Join(errs...)
}

// keptKey is the key in the result of savedByText of the workspace that a volume keeps.
func keptKey(volume, text string) string { return volume + "\x00" + text }

// savedByText returns the checkpoints and the kept workspaces by the text that was written to them, and the kept ones by
// keptKey too. Of a checkpoint and what began with it, the checkpoint counts.
func (w *world) savedByText() (map[string]*meta.Workspace, error) {
	state, err := invariant.State(w.config.DataDir())
	list := make(map[string]*meta.Workspace)
	for _, rec := range state.Workspaces {
		if rec.Phase != meta.Checkpoint && rec.Mode != "keep" {
			continue
		}
		err = errors.Join(err, invariant.ViewWorkspace(w.config.DataDir(), rec, func(dir string) error {
			text, err := os.ReadFile(filepath.Join(dir, addedFile))
			if err != nil {
				return nil // nothing was written there
			}
			if list[string(text)] == nil || rec.Phase == meta.Checkpoint {
				list[string(text)] = &rec
			}
			if rec.Phase.Live() {
				list[keptKey(rec.Volume, string(text))] = &rec
			}
			if err := checkWorkspace(held{dir, rec.Commit, string(text)}); err != nil {
				return fmt.Errorf("workspace %s of volume %q: %w", rec.ID, rec.Volume, err)
			}
			return nil
		}))
	}
	return list, err
}

// aside is a directory of a workspace. Scenarios write files there that the checks leave out.
const aside = "aside"

// checkWorkspace checks that a workspace differs from its commit only by its text, build
// state and the files aside. It also checks that git finds no damage.
func checkWorkspace(h held) error {
	list, err := invariant.Differences(filepath.Join(h.dir, ".git"), h.dir, h.commit)
	if err != nil {
		return err
	}
	list = slices.DeleteFunc(list, func(line string) bool {
		return strings.HasPrefix(line, "?\tnode_modules/") || strings.HasPrefix(line, "?\tdist/") || strings.HasPrefix(line, "?\t"+aside+"/")
	})
	var want []string
	if h.text != "" {
		want = []string{"M\t" + changedFile, "?\t" + addedFile}
		for _, name := range []string{addedFile, changedFile} {
			got, err := os.ReadFile(filepath.Join(h.dir, name))
			if err != nil || string(got) != h.text {
				return fmt.Errorf("%s: got %q, %v, want %q", name, got, err, h.text)
			}
		}
	}
	if !slices.Equal(list, want) {
		return fmt.Errorf("differences %q, want %q", list, want)
	}
	// git fsck starts a process to verify the commit graph, and one for the multi-pack index, also if there
	// is none.
	for _, none := range []string{"info/commit-graph", "info/commit-graphs", "pack/multi-pack-index"} {
		if _, err := os.Lstat(filepath.Join(h.dir, ".git/objects", none)); !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("objects/%s: got %v; the plugin writes none", none, err)
		}
	}
	_, err = testgit.Run(testgit.Command(h.dir, "--git-dir", ".git", "-c", "core.commitGraph=false", "-c", "core.multiPackIndex=false",
		"fsck", "--connectivity-only", "--no-dangling"))
	return err
}
