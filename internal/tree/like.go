package tree

import (
	"os"
	"path/filepath"

	"github.com/helmdeck/repos/internal/checkout"
)

// layers are the directories of a tree that is held, topmost first: of one from which
// another that is built whole takes the times of files. None: there is no such tree.
type layers []string

// reference returns the checkout that is in the layers, below path with its repository
// in gitDir. Both are below the top of the tree, which the empty path is. It is the
// zero value where there is none, or what there is can't be read: nobody needs it.
func (l layers) reference(path, gitDir string) checkout.Reference {
	if len(l) == 0 {
		return checkout.Reference{}
	}
	if path != "" {
		// Another submodule's repository may have had the name.
		want, err := gitFile(path, gitDir)
		got, readErr := os.ReadFile(filepath.Join(l[0], path, ".git"))
		if err != nil || readErr != nil || string(got) != want {
			return checkout.Reference{}
		}
	}
	index := filepath.Join(l[0], gitDir, checkout.IndexFile) // each layer has all of it
	if info, err := os.Lstat(index); err != nil || !info.Mode().IsRegular() {
		return checkout.Reference{}
	}
	r := checkout.Reference{Index: index}
	for _, dir := range l {
		if _, err := os.Lstat(filepath.Join(dir, path)); err == nil {
			r.Dirs = append(r.Dirs, filepath.Join(dir, path))
		}
	}
	return r
}

// gitFile returns the content of the .git at path that names the repository gitDir.
func gitFile(path, gitDir string) (string, error) {
	to, err := filepath.Rel(path, gitDir)
	return "gitdir: " + to + "\n", err
}
