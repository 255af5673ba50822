package invariant

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/helmdeck/repos/internal/meta"
)

// data is a data directory with the records of its database, and the problems that were found in
// it.
type data struct {
	root string
	meta.State
	problems []error
}

// read reads the database of a data directory. It reads a copy, because a running plugin has the
// file locked. If the plugin writes at the same moment, the copy may be unreadable, and read
// returns an error.
func read(root string) (*data, error) {
	content, err := os.ReadFile(filepath.Join(root, "meta.db"))
	if err != nil {
		return nil, err
	}
	temp, err := os.MkdirTemp("", "helmdeck-invariant-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(temp)
	path := filepath.Join(temp, "meta.db")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		return nil, err
	}
	db, state, err := meta.Open(path)
	if err != nil {
		return nil, err
	}
	return &data{root: root, State: state}, db.Close()
}

// State returns the records of the database of the data directory root.
func State(root string) (meta.State, error) {
	d, err := read(root)
	if err != nil {
		return meta.State{}, err
	}
	return d.State, nil
}

// ViewWorkspace calls f with the files of a workspace that is not mounted, as its container saw
// them.
func ViewWorkspace(root string, w meta.Workspace, f func(dir string) error) error {
	clone := filepath.Join(root, "clones", w.Clone)
	var layers []string
	for _, dir := range uppers(w) {
		layers = append(layers, filepath.Join(clone, "workspaces", dir))
	}
	layers = append(layers, filepath.Join(clone, "refs", w.GitLayer, "git"))
	for _, p := range w.Warm {
		for _, id := range p.Chain {
			layers = append(layers, filepath.Join(clone, "warm", id, "files"))
		}
	}
	if len(w.Warm) > 0 && w.Warm[0].Base.Times != "" {
		layers = append(layers, filepath.Join(clone, "warm", w.Warm[0].Base.Times, "files"))
	}
	for _, id := range w.Chain {
		layers = append(layers, filepath.Join(clone, "trees", id))
	}
	return Merged(layers, f)
}

// MostBelow is the number of checkpoints from which on one that stands on so many is merged with them, unless a workspace
// stands on any of these.
const MostBelow = 16

// uppers returns the uppers that a workspace consists of, topmost first, below the directory of workspaces.
func uppers(w meta.Workspace) []string {
	list := []string{w.ID + "/upper"}
	if len(w.Merged) > 0 {
		list = []string{w.ID + "/merged"}
	}
	for i, id := range w.From {
		if w.OnMerged && i == len(w.From)-1 {
			list = append(list, id+"/merged")
		} else {
			list = append(list, id+"/upper")
		}
	}
	return list
}

func (d *data) failf(format string, args ...any) {
	d.problems = append(d.problems, fmt.Errorf(format, args...))
}

// path returns a path below the data directory.
func (d *data) path(elem ...string) string {
	return filepath.Join(append([]string{d.root}, elem...)...)
}

// names lists a directory, which may be missing.
func (d *data) names(elem ...string) []string {
	entries, err := os.ReadDir(d.path(elem...))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		d.failf("%w", err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func (d *data) exists(elem ...string) bool {
	_, err := os.Lstat(d.path(elem...))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		d.failf("%w", err)
	}
	return err == nil
}

// split returns the clone and the ID in the key of a layer.
func split(key string) (clone, id string) {
	at := strings.LastIndexByte(key, '/')
	return key[:at], key[at+1:]
}
