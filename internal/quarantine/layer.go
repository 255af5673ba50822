package quarantine

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/gitref"
)

// layer is the git layer of a workspace: what the container's repository had from the start. The
// plugin made it, and no container can change it.
type layer struct {
	objects string // the path of its objects
	format  string // sha1 or sha256
	// bases are the IDs of all its refs, each once. The remote had everything that they reach
	// when the layer was made, and the layer has it too, apart from what a shallow or a filtered
	// fetch omits.
	bases   []string
	packs   map[string]bool // the names of its packs
	noBlobs bool            // the contents of files may be missing
	shallow []byte          // where its history ends; nil if it is complete
}

// readLayer reads the git layer whose .git is at path.
func readLayer(path string) (l layer, err error) {
	fail := func(err error) (layer, error) { return layer{}, fmt.Errorf("read the git layer: %w", err) }
	refs, err := git.Refs(path)
	if err != nil {
		return fail(err)
	}
	var ids []string
	for _, r := range refs {
		ids = append(ids, r.ID)
	}
	head, err := os.ReadFile(filepath.Join(path, "HEAD"))
	if err != nil {
		return fail(err)
	}
	if ref, ok := strings.CutPrefix(string(head), "ref: "); ok {
		if head, err = os.ReadFile(filepath.Join(path, strings.TrimSpace(ref))); err != nil {
			return fail(err)
		}
	}
	id := string(bytes.TrimSpace(head))
	if !gitref.IsObjectID(id) {
		return fail(fmt.Errorf("HEAD is at %q", id))
	}
	ids = append(ids, id)
	slices.Sort(ids)
	l = layer{objects: filepath.Join(path, "objects"), format: gitref.Format(id), bases: slices.Compact(ids), packs: make(map[string]bool)}
	packs, err := os.ReadDir(filepath.Join(l.objects, "pack"))
	if err != nil {
		return fail(err)
	}
	for _, p := range packs {
		l.packs[p.Name()] = true
		l.noBlobs = l.noBlobs || strings.HasSuffix(p.Name(), ".promisor")
	}
	if l.shallow, err = os.ReadFile(filepath.Join(path, "shallow")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fail(err)
	}
	return l, nil
}

// has reports whether one of the layer's refs is at id.
func (l layer) has(id string) bool {
	_, found := slices.BinarySearch(l.bases, id)
	return found
}

// linkPacks makes the directory of objects at path, with hard links to the layer's packs: they
// stay if the workspace ends, and its layer is removed.
func (l layer) linkPacks(path string) error {
	err := errors.Join(os.Mkdir(path, 0o755), os.Mkdir(filepath.Join(path, "pack"), 0o755))
	for name := range l.packs {
		err = errors.Join(err, os.Link(filepath.Join(l.objects, "pack", name), filepath.Join(path, "pack", name)))
	}
	return err
}
