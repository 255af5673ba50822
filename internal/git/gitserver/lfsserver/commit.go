package lfsserver

import (
	"maps"
	"slices"

	"github.com/helmdeck/repos/internal/git/gitserver"
)

// Attributes assigns the files that Commit adds to git-lfs.
const Attributes = "*.bin filter=lfs diff=lfs merge=lfs -text\n"

// Commit adds a commit to a branch of the bare repository at path, with .gitattributes and a
// pointer for each file (name to content; names end in .bin). It adds the contents to the server,
// and returns the commit's ID and the pointers by name.
func (s *Server) Commit(path, branch string, files map[string]string) (string, map[string]Pointer, error) {
	changes := []gitserver.Change{{Path: ".gitattributes", Content: Attributes}}
	pointers := map[string]Pointer{}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		pointers[name] = s.Put(files[name])
		changes = append(changes, gitserver.Change{Path: name, Content: pointers[name].String()})
	}
	id, err := gitserver.Commit(path, branch, changes...)
	return id, pointers, err
}
