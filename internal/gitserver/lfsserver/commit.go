package lfsserver

import (
	"maps"
	"slices"

	"github.com/helmdeck/repos/internal/gitserver"
)

// Attributes make git-lfs take care of the files that Commit adds.
const Attributes = "*.bin filter=lfs diff=lfs merge=lfs -text\n"

// Commit adds a commit to a branch of the bare repository at path, with .gitattributes and a pointer for each file (name
// to content, names ending in .bin), puts the contents into the server, and returns the commit's id and the pointers by
// name.
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
