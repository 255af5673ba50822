package tree

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/overlay"
)

// A git layer has two directories, each for a place in the overlay.
const (
	// gitPart has .git.
	gitPart = "git"
	// ownedPart has a stub for each pack of gitPart, and for those of the tree's submodules, which are hard links of
	// files that belong to the uid that fetches. A stub belongs to the volume's uid, and has one link, so a
	// container may link it, and the link is the same file.
	ownedPart = "owned"
)

// OwnedPacks returns the directory of a git layer that goes on top of all layers in a mount with metacopy.
// It has no data of its own, and can't be read in a mount without.
func (c *Collection) OwnedPacks(gitLayer string) string {
	return filepath.Join(c.layers.Lower(meta.GitLayer, gitLayer)[0], ownedPart)
}

// ownPacks makes the directory owned, with stubs for the packs of git, a git layer's .git without submodules, and
// for those of the submodules in the directory modules, which may be empty or missing.
func (w *ownedWriter) ownPacks(ctx context.Context, owned, git, modules string) error {
	w.mkdir(owned)
	w.mkdirs(owned, ".git/objects/pack")
	if err := w.stubs(filepath.Join(git, "objects/pack"), filepath.Join(owned, ".git/objects/pack")); err != nil || modules == "" {
		return err
	}
	if _, err := os.Lstat(modules); errors.Is(err, fs.ErrNotExist) {
		return nil // all submodules are left out, or could not be had
	}
	return filepath.WalkDir(modules, func(path string, d fs.DirEntry, err error) error {
		if err = errors.Join(err, context.Cause(ctx)); err != nil || !d.IsDir() || !strings.HasSuffix(path, "/objects/pack") {
			return err
		}
		rel, err := filepath.Rel(modules, path)
		if err != nil {
			return err
		}
		rel = filepath.Join(".git/modules", rel)
		w.mkdirs(owned, rel)
		return w.stubs(path, filepath.Join(owned, rel))
	})
}

// stubs makes a stub in to for each pack in from, and for its index.
func (w *ownedWriter) stubs(from, to string) error {
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if ext := filepath.Ext(e.Name()); !e.Type().IsRegular() || ext != ".pack" && ext != ".idx" {
			continue
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		w.stub(filepath.Join(to, e.Name()), info)
	}
	return w.err
}

// stub makes a stub for a file, with its size, mode and time.
func (w *ownedWriter) stub(path string, of fs.FileInfo) {
	if w.err != nil {
		return
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, of.Mode().Perm())
	if err != nil {
		w.err = err
		return
	}
	at := unix.NsecToTimespec(of.ModTime().UnixNano())
	w.err = errors.Join(
		f.Chown(w.uid, w.gid), overlay.TakeDataBelow(f, of.Size()),
		unix.UtimesNanoAt(unix.AT_FDCWD, path, []unix.Timespec{at, at}, unix.AT_SYMLINK_NOFOLLOW), f.Close(),
	)
}
