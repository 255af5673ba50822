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

// promises says what was answered and does not hold.
func (w *world) promises() error {
	var errs []error
	list, err := w.d.List(context.Background())
	errs = append(errs, err)
	there := make(map[string]bool)
	for _, v := range list {
		there[v.Name] = true
		if !w.volumes[v.Name] && !w.unsure[v.Name] {
			errs = append(errs, fmt.Errorf("volume %q is there", v.Name))
		}
	}
	for name := range w.volumes {
		if !there[name] && !w.unsure[name] {
			errs = append(errs, fmt.Errorf("volume %q was lost", name))
		}
	}
	found, err := w.found()
	errs = append(errs, err)
	for text := range w.discards {
		if found[text] == nil {
			errs = append(errs, fmt.Errorf("the discard with %q was lost", text))
		}
	}
	for name, text := range w.kept {
		if rec := found[text]; rec == nil || !w.unsure[name] && (rec.Volume != name || !rec.Phase.Live()) {
			errs = append(errs, fmt.Errorf("what volume %q keeps, %q, was lost: %+v", name, text, rec))
		}
	}
	for l, h := range w.leases {
		if err := intact(h); err != nil && !(w.unsure[l] && (found[h.text] != nil || h.text == "")) {
			errs = append(errs, fmt.Errorf("%v: %w", l, err))
		}
	}
	return errors.Join(errs...)
}

// found returns the discards, and what volumes keep, by the text that is in them.
func (w *world) found() (map[string]*meta.Workspace, error) {
	state, err := invariant.State(w.config.DataDir())
	list := make(map[string]*meta.Workspace)
	for _, rec := range state.Workspaces {
		if rec.Phase != meta.Discarded && rec.Mode != "keep" {
			continue
		}
		err = errors.Join(err, invariant.Discard(w.config.DataDir(), rec, func(dir string) error {
			text, err := os.ReadFile(filepath.Join(dir, mine))
			if err != nil {
				return nil // nothing was written there
			}
			list[string(text)] = &rec
			if err := intact(held{dir, rec.Commit, string(text)}); err != nil {
				return fmt.Errorf("workspace %s of volume %q: %w", rec.ID, rec.Volume, err)
			}
			return nil
		}))
	}
	return list, err
}

// intact says what is wrong with a workspace: what is not as in its commit, but for its text, the link to the cache and
// build state.
func intact(h held) error {
	list, err := invariant.Differences(filepath.Join(h.dir, ".git"), h.dir, h.commit)
	if err != nil {
		return err
	}
	list = slices.DeleteFunc(list, func(line string) bool {
		return line == "?\t.hdcache" || strings.HasPrefix(line, "?\tnode_modules/")
	})
	var want []string
	if h.text != "" {
		want = []string{"M\t" + changed, "?\t" + mine}
		for _, name := range []string{mine, changed} {
			got, err := os.ReadFile(filepath.Join(h.dir, name))
			if err != nil || string(got) != h.text {
				return fmt.Errorf("%s: got %q, %v, want %q", name, got, err, h.text)
			}
		}
	}
	if !slices.Equal(list, want) {
		return fmt.Errorf("differences %q, want %q", list, want)
	}
	_, err = testgit.Run(testgit.Command(h.dir, "--git-dir", ".git", "fsck", "--connectivity-only", "--no-dangling"))
	return err
}
