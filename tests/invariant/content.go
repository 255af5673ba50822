package invariant

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/tests/testgit"
)

// Content checks the files of the trees and the objects of the stores and git layers of the data
// directory root. The error lists every problem, but not of what is evicted meanwhile. Content reads all of the files with
// this machine's git: do not use it where an untrusted container has written.
func Content(root string) error {
	d, err := read(root)
	if err != nil {
		return err
	}
	// check calls do, whose problems do not count if the database does not have its subject any more.
	check := func(there func(now *data) bool, do func()) {
		known := len(d.problems)
		do()
		if len(d.problems) == known {
			return
		}
		if now, err := read(root); err == nil && !there(now) {
			d.problems = d.problems[:known]
		}
	}
	for key, c := range d.Clones {
		for name := range c.Stores {
			check(func(now *data) bool { _, ok := now.Clones[key].Stores[name]; return ok }, func() {
				d.checkObjects(d.path("clones", key, "store", name+".git"), "--all")
			})
		}
	}
	for key, l := range d.GitLayers {
		check(func(now *data) bool { _, ok := now.GitLayers[key]; return ok }, func() {
			d.checkObjects(d.path("clones", l.Clone, "refs", l.ID, "git/.git"), "--all", "HEAD")
		})
	}
	for key, t := range d.Trees {
		if t.Commit == "" || t.Modules != "" {
			continue // the record comes from a rebuilt database, or the tree contains submodules
		}
		check(func(now *data) bool { _, ok := now.Trees[key]; return ok }, func() {
			if err := d.checkTree(t); err != nil {
				d.failf("tree %s of commit %s: %w", key, t.Commit, err)
			}
		})
	}
	return errors.Join(d.problems...)
}

// checkObjects checks that a repository has all objects that its refs lead to, except those that a
// partial clone omits.
func (d *data) checkObjects(dir string, refs ...string) {
	cmd := testgit.Command("/", append([]string{"--git-dir", dir, "rev-list", "--objects", "--missing=allow-promisor", "--quiet"}, refs...)...)
	cmd.Env = append(cmd.Env, "GIT_NO_LAZY_FETCH=1")
	if _, err := testgit.Run(cmd); err != nil {
		d.failf("%w", err)
	}
}

// checkTree compares the files of a tree with its commit. git has no index with file times, so that
// it reads every file.
func (d *data) checkTree(t meta.Layer) error {
	store := ""
	for name := range d.Clones[t.Clone].Stores {
		dir := d.path("clones", t.Clone, "store", name+".git")
		if _, err := testgit.Run(testgit.Command("/", "--git-dir", dir, "cat-file", "-e", t.Commit+"^{tree}")); err == nil {
			store = dir
		}
	}
	if store == "" {
		return nil // the store was lost; the tree is complete without it
	}
	var lower []string
	for _, id := range t.Chain {
		lower = append(lower, d.path("clones", t.Clone, "trees", id))
	}
	return Merged(lower, func(dir string) error {
		wrong, err := Differences(store, dir, t.Commit)
		if err != nil {
			return err
		}
		if _, err := os.Lstat(filepath.Join(dir, ".git/info/sparse-checkout")); err == nil {
			wrong = slices.DeleteFunc(wrong, func(line string) bool { return strings.HasPrefix(line, "D\t") })
		}
		if len(wrong) > 0 {
			return fmt.Errorf("%d files differ: %.500q", len(wrong), wrong)
		}
		return nil
	})
}

// Merged calls f with a read-only overlay of layers, which are given topmost first.
func Merged(layers []string, f func(dir string) error) (err error) {
	temp, err := os.MkdirTemp("", "helmdeck-merged-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	target, below := filepath.Join(temp, "target"), filepath.Join(temp, "below")
	if err := errors.Join(os.Mkdir(target, 0o755), os.Mkdir(below, 0o755)); err != nil {
		return err
	}
	// An overlay without an upper needs at least two layers.
	options := "metacopy=on,lowerdir=" + strings.Join(append(layers, below), ":")
	if err := unix.Mount("overlay", target, "overlay", unix.MS_RDONLY|unix.MS_NODEV|unix.MS_NOSUID, options); err != nil {
		return fmt.Errorf("mount %s: %w", options, err)
	}
	// A child that another goroutine starts has this process's descriptors for a moment, so the mount may be busy.
	defer func() { err = errors.Join(err, unix.Unmount(target, unix.MNT_DETACH)) }()
	return f(target)
}

// Differences lists the files below dir that differ from a commit of the repository gitDir. Each
// line is D, M, T (another type) or ? (not in the commit), a tab, and the path. Differences reads
// every file, and ignores none.
func Differences(gitDir, dir, commit string) ([]string, error) {
	temp, err := os.MkdirTemp("", "helmdeck-index-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(temp)
	run := func(args ...string) (string, error) {
		cmd := testgit.Command(dir, append([]string{"--git-dir", gitDir, "--work-tree", dir, "-c", "core.bare=false"}, args...)...)
		cmd.Env = append(cmd.Env, "GIT_INDEX_FILE="+filepath.Join(temp, "index"))
		return testgit.Run(cmd)
	}
	// This index has no file times, so that git reads every file.
	if _, err := run("read-tree", commit); err != nil {
		return nil, err
	}
	status, err := run("status", "--porcelain", "--untracked-files=all", "--ignored", "--no-renames", "--ignore-submodules=all")
	if err != nil {
		return nil, err
	}
	var list []string
	for line := range strings.Lines(status) {
		// Two letters: the index compared with HEAD, and the file compared with the index.
		switch kind, path := line[1], strings.TrimSuffix(line[3:], "\n"); kind {
		case ' ':
		case '?', '!':
			list = append(list, "?\t"+path)
		default:
			list = append(list, string(kind)+"\t"+path)
		}
	}
	return list, nil
}
