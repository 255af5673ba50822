package warm

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/disk/upfile"
	"github.com/helmdeck/repos/internal/repo/checkout"
)

// A warm layer has two directories.
const (
	// filesPart is what an overlay shows.
	filesPart = "files"
	// basePart says from which files the others were built: it has links to the indexes that their workspace began with,
	// and checkout.Edited.
	basePart = "base"
)

// times returns the layers of times of a workspace.
func (m *Manager) times(e Ended) []string {
	if id := e.Paths[0].Base.Times; id != "" {
		return m.files(e.Clone, id)
	}
	return nil
}

// noteBase fills the directory base of a new layer. edited is what editedFiles found.
func (m *Manager) noteBase(e Ended, base string, edited []string) error {
	times := m.times(e)
	if err := os.Mkdir(base, 0o755); err != nil {
		return err
	}
	for i, dir := range slices.Concat(times, e.Tree) {
		err := linkIndexes(filepath.Join(dir, ".git"), base, checkout.IndexFile)
		if err == nil && len(times) > 0 && i >= len(times) {
			err = linkIndexes(filepath.Join(dir, ".git"), base, checkout.TreeIndex)
		}
		if err != nil {
			return err
		}
	}
	if len(edited) == 0 {
		return nil
	}
	text := strings.Join(edited, "\x00") + "\x00"
	return os.WriteFile(filepath.Join(base, checkout.Edited), []byte(text), 0o644)
}

// linkIndexes links the indexes in a layer's .git to the same directories below base, under a name, unless base has them
// from a layer above.
func linkIndexes(git, base, name string) error {
	return eachIndex(git, func(rel string) error {
		to := filepath.Join(base, filepath.Dir(rel), name)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if err := os.Link(filepath.Join(git, rel), to); !errors.Is(err, fs.ErrExist) {
			return err
		}
		return nil
	})
}

// eachIndex calls f for the paths below git, a layer's .git, of its index and those of submodules.
func eachIndex(git string, f func(rel string) error) error {
	visit := func(at string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() != checkout.IndexFile || !d.Type().IsRegular() {
			return err
		}
		rel, err := filepath.Rel(git, at)
		return cmp.Or(err, f(rel))
	}
	for _, name := range []string{checkout.IndexFile, "modules"} {
		if err := filepath.WalkDir(filepath.Join(git, name), visit); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// Limits of editedFiles.
const (
	maxEdited      = 10_000  // files and directories
	maxEditedBytes = 1 << 20 // of their names
	maxEditedLooks = 100_000 // entries of an upper that are looked up in the layers below
)

// editedFiles returns the paths at which the upper of an ended workspace hides or changes files of its commit, outside of
// the warm paths, to which those that are left out do not belong. Below a path too, if it is that of a directory. If these
// are too many it returns ".", for all files.
func editedFiles(ctx context.Context, e Ended, times []string) ([]string, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	v := &editFinder{stop: stop}
	for _, p := range e.Dirs() {
		v.skip = append(v.skip, p.Path)
	}
	var err error
	if v.lower, err = upfile.OpenLayers(slices.Concat(times, e.Tree)); err != nil {
		return nil, err
	}
	defer v.lower.Close()
	err = disk.Walk(ctx, e.Upper, v, nil)
	if v.all {
		return []string{"."}, nil
	}
	return v.edited, err
}

// editFinder is a disk.Visitor. An entry that it can't judge counts as all files.
type editFinder struct {
	stop   context.CancelFunc
	skip   []string      // warm paths
	lower  upfile.Layers // the layers below
	names  []string      // of the current entry and its parents
	edited []string
	bytes  int // of edited
	looks  int
	all    bool
}

func (v *editFinder) Visit(e disk.Entry) (enter bool) {
	if e.Depth == 0 || v.all {
		return !v.all
	}
	v.names = append(v.names[:min(e.Depth-1, len(v.names))], e.Name)
	at := path.Join(v.names...)
	if at == ".git" || slices.Contains(v.skip, at) {
		return false
	}
	if v.looks++; v.looks > maxEditedLooks {
		v.giveUp()
		return false
	}
	st, err := upfile.Stat(e.Dir, e.Name)
	in, was, lookErr := v.lower.ParentOf(at)
	if lookErr == nil {
		in.Close()
	}
	switch {
	case errors.Is(lookErr, fs.ErrNotExist):
		return false // not of the commit, nor is anything in it
	case err != nil || lookErr != nil:
		v.giveUp()
		return false
	}
	attr := func(name string) bool {
		_, ok, err := upfile.Attribute(upfile.Below(e.Dir, e.Name), name)
		return ok || err != nil
	}
	switch {
	case upfile.Kind(&st) == unix.S_IFDIR && upfile.Kind(&was) == unix.S_IFDIR:
		if !attr(upfile.OpaqueAttr) && !attr(upfile.RedirectAttr) {
			return true
		}
	case upfile.Kind(&st) == unix.S_IFREG && st.Mode == was.Mode && st.Size == was.Size && st.Mtim == was.Mtim && attr(upfile.MetacopyAttr) && !attr(upfile.RedirectAttr):
		return false // git, or chown
	}
	v.edited = append(v.edited, at)
	if v.bytes += len(at) + 1; len(v.edited) > maxEdited || v.bytes > maxEditedBytes {
		v.giveUp()
	}
	return false
}

func (v *editFinder) giveUp() {
	v.all = true
	v.stop()
}

func (v *editFinder) Leave(disk.Entry) {}

func (v *editFinder) Skip(disk.Entry, error) { v.giveUp() }

// linkAll makes the directory to, with links to all files in the directory from.
func linkAll(from, to string) error {
	return filepath.WalkDir(from, func(at string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, at)
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.Mkdir(filepath.Join(to, rel), 0o755)
		}
		return os.Link(at, filepath.Join(to, rel))
	})
}
