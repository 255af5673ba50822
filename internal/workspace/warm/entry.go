package warm

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/disk/upfile"
)

// entry is a name in one layer or in an upper.
type entry struct {
	kind     uint32 // unix.S_IFDIR and the like, whiteout, or 0 if the name does not exist
	opaque   bool   // a directory that hides those with its name in the layers below
	redirect bool   // a renamed directory: it shows one with another name in the layers below
}

// entryAt returns the entry with this name in dir.
func entryAt(dir *os.File, name string) (e entry, err error) {
	st, err := upfile.Stat(int(dir.Fd()), name)
	if errors.Is(err, unix.ENOENT) {
		return e, nil
	}
	if e.kind = upfile.Kind(&st); err != nil || e.kind != unix.S_IFDIR {
		return e, err
	}
	path := upfile.Below(int(dir.Fd()), name)
	opaque, _, err := upfile.Attribute(path, upfile.OpaqueAttr)
	if err == nil {
		_, e.redirect, err = upfile.Attribute(path, upfile.RedirectAttr)
	}
	e.opaque = opaque == "y"
	return e, err
}

// leaveOut returns why a warm layer must not be used at rel, on top of a tree with these
// layers, topmost first: it would change or hide files of the commit. The reason is empty if
// the layer is harmless.
func leaveOut(layers []string, rel string) (reason string, err error) {
	names := strings.Split(rel, "/")
	for i := range names {
		at := path.Join(names[:i+1]...)
		var kind uint32
		if layers, kind, err = mergedKind(layers, at); err != nil {
			return "", err
		}
		switch {
		case kind == 0:
			return "", nil
		case i == len(names)-1:
			return "the commit has it", nil
		case kind != unix.S_IFDIR:
			return fmt.Sprintf("%s is not a directory in the commit", at), nil
		}
	}
	return "", nil
}

// mergedKind returns the kind that rel has in a merge of the layers, or 0 if it does not
// exist there, and the layers that a directory is merged from. The parent of rel must be a
// directory in all layers that have it.
func mergedKind(layers []string, rel string) (in []string, kind uint32, err error) {
	for _, layer := range layers {
		e, err := layerEntry(layer, rel)
		switch {
		case err != nil:
			return nil, 0, fmt.Errorf("look for %q in %q: %w", rel, layer, err)
		case e.kind == 0:
			continue
		case e.kind == unix.S_IFDIR:
			in, kind = append(in, layer), e.kind
		case kind == 0 && e.kind != upfile.Whiteout:
			kind = e.kind
		}
		if e.kind != unix.S_IFDIR || e.opaque {
			break // it hides the layers below
		}
	}
	return in, kind, nil
}

// layerEntry returns the entry at the path rel in a layer.
func layerEntry(layer, rel string) (entry, error) {
	root, err := upfile.OpenDir(layer)
	if err != nil {
		return entry{}, err
	}
	defer root.Close()
	parent, err := disk.Open(root, path.Dir(rel), unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return entry{}, err
	}
	defer parent.Close()
	return entryAt(parent, path.Base(rel))
}

// state says what a workspace did to a path.
type state int

const (
	untouched state = iota
	removed
	written
)

// spot is the place of a path in an upper.
type spot struct {
	state   state
	dir     *os.File // its parent, to be closed; nil unless the path is a directory or a whiteout
	name    string
	opaque  bool  // a directory that hides the layers below
	strange error // why the path can't be published; else nil
}

// close closes the parent.
func (s spot) close() {
	if s.dir != nil {
		s.dir.Close()
	}
}

func (s spot) path() string { return upfile.Below(int(s.dir.Fd()), s.name) }

// locate returns the spot of rel in an upper that nobody uses any more.
func locate(upper, rel string) (s spot, err error) {
	dir, err := upfile.OpenDir(upper)
	if err != nil {
		return spot{}, err
	}
	defer func() {
		if s.dir == nil {
			dir.Close()
		}
	}()
	opaque := false
	for name, rest, more := strings.Cut(rel, "/"); ; name, rest, more = strings.Cut(rest, "/") {
		e, err := entryAt(dir, name)
		opaque = opaque || e.opaque
		at := spot{state: written, name: name, opaque: opaque}
		if !more {
			at.dir = dir
		}
		switch {
		case err != nil:
			return spot{}, fmt.Errorf("look for %q in an upper: %w", rel, err)
		case e.kind == 0 && opaque:
			return spot{state: removed}, nil // its parent was removed
		case e.kind == 0:
			return spot{}, nil
		case e.kind == upfile.Whiteout:
			at.state = removed
			return at, nil
		case e.kind != unix.S_IFDIR:
			return spot{state: written, strange: fmt.Errorf("%q is not a directory", name)}, nil
		case e.redirect:
			at.strange = fmt.Errorf("%q is a renamed directory", name)
			return at, nil
		case !more:
			return at, nil
		}
		next, err := disk.Open(dir, name, unix.O_PATH|unix.O_DIRECTORY)
		if err != nil {
			return spot{}, fmt.Errorf("look for %q in an upper: %w", rel, err)
		}
		dir.Close()
		dir = next
	}
}
