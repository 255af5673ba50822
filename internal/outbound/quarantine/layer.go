package quarantine

import (
	"bufio"
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"github.com/helmdeck/repos/internal/git/gitref"
)

// layer is the git layer of a workspace: what the container's repository had from the start. The
// plugin made it, and no container can change it.
type layer struct {
	git     string // the path of its .git
	objects string // that of its objects
	format  string // sha1 or sha256
	// bases are the IDs of all its refs, each once. The remote had everything that they reach
	// when the layer was made, and the layer has it too, apart from what a shallow or a filtered
	// fetch omits.
	bases objectIDs
	// moved are the IDs of branches of the Upstream.
	moved   objectIDs
	packed  int64           // bytes of its packed-refs
	packs   map[string]bool // the names of its packs
	noBlobs bool            // the contents of files may be missing
	shallow []byte          // where its history ends; nil if it is complete
}

// readLayer reads the git layer whose .git is at path.
func readLayer(path string) (l layer, err error) {
	fail := func(err error) (layer, error) { return layer{}, fmt.Errorf("read the git layer: %w", err) }
	if l.bases, l.packed, err = packedIDs(path); err != nil {
		return fail(err)
	}
	head, err := os.ReadFile(filepath.Join(path, "HEAD"))
	if err != nil {
		return fail(err)
	}
	unborn := false // the remote had no commit
	if ref, ok := strings.CutPrefix(string(head), "ref: "); ok {
		head, err = os.ReadFile(filepath.Join(path, strings.TrimSpace(ref)))
		if unborn = errors.Is(err, fs.ErrNotExist); err != nil && !unborn {
			return fail(err)
		}
	}
	if id := bytes.TrimSpace(head); gitref.IsObjectID(string(id)) {
		l.bases.size = len(id) / 2
		l.bases.add(id)
	} else if !unborn {
		return fail(fmt.Errorf("HEAD is at %q", id))
	}
	l.bases.sort()
	l.git, l.objects, l.packs = path, filepath.Join(path, "objects"), make(map[string]bool)
	if l.format, err = formatOf(path, l.bases.size); err != nil {
		return fail(err)
	}
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

// formatOf returns the object format of a layer: that of its refs, whose IDs have size bytes, or, without any, of its
// configuration.
func formatOf(path string, size int) (string, error) {
	switch size {
	case sha1.Size:
		return gitref.SHA1, nil
	case sha256.Size:
		return gitref.SHA256, nil
	}
	config, err := os.ReadFile(filepath.Join(path, "config"))
	if bytes.Contains(bytes.ToLower(config), []byte("\n\tobjectformat = "+gitref.SHA256+"\n")) {
		return gitref.SHA256, err
	}
	return gitref.SHA1, err
}

// packedIDs returns the IDs of the refs in packed-refs, and its size.
func packedIDs(path string) (ids objectIDs, size int64, err error) {
	path = filepath.Join(path, "packed-refs")
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return ids, 0, nil
	}
	if err != nil {
		return ids, 0, err
	}
	err = eachRef(path, func(id, _ []byte) error {
		if ids.size != 0 && ids.size != len(id)/2 {
			return fmt.Errorf("packed-refs has the line %.100q", id)
		}
		ids.size = len(id) / 2
		ids.add(id)
		return nil
	})
	return ids, info.Size(), err
}

// eachRef calls f for each ref in a packed-refs of the plugin, as a stream: a remote may have half a million, and many
// workspaces may be looked at. An error of f ends it.
func eachRef(path string, f func(id, ref []byte) error) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Bytes()
		if bytes.HasPrefix(line, []byte("#")) || bytes.HasPrefix(line, []byte("^")) {
			continue
		}
		id, ref, _ := bytes.Cut(line, []byte(" "))
		if !gitref.IsObjectID(string(id)) {
			return fmt.Errorf("packed-refs has the line %.100q", line)
		}
		if err := f(id, ref); err != nil {
			return err
		}
	}
	return lines.Err()
}

// has reports whether one of the layer's refs is at id.
func (l layer) has(id string) bool { return l.bases.has(id) }

// linkPacks makes the directory of objects at path, with hard links to the layer's packs: they
// stay if the workspace ends, and its layer is removed.
func (l layer) linkPacks(path string) error { return linkPacks(l.objects, path, maps.Keys(l.packs)) }

// linkPacks makes the directory of objects at to, with hard links to those names among the packs of the one at from.
func linkPacks(from, to string, names iter.Seq[string]) error {
	err := errors.Join(os.Mkdir(to, 0o755), os.Mkdir(filepath.Join(to, "pack"), 0o755))
	for name := range names {
		err = errors.Join(err, os.Link(filepath.Join(from, "pack", name), filepath.Join(to, "pack", name)))
	}
	return err
}
