package warm

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/disk"
)

// Extended attributes with which overlayfs marks directories and files of a layer.
const (
	opaqueAttr   = "trusted.overlay.opaque"
	redirectAttr = "trusted.overlay.redirect"
	metacopyAttr = "trusted.overlay.metacopy"
)

// whiteout is the kind of an overlayfs whiteout. No file has this kind.
const whiteout = unix.S_IFMT

func kind(st *unix.Stat_t) uint32 {
	if kind := st.Mode & unix.S_IFMT; kind != unix.S_IFCHR || st.Rdev != 0 {
		return kind
	}
	return whiteout
}

// stat describes name in dir, without following it.
func stat(dir int, name string) (st unix.Stat_t, err error) {
	err = unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	return st, err
}

// below names an entry of an open directory, for calls that take a path and do not
// follow its last element.
func below(dir int, name string) string { return "/proc/self/fd/" + strconv.Itoa(dir) + "/" + name }

// attribute returns an extended attribute of path, without following it. ok reports
// whether the attribute is set: that of metacopy has an empty value.
func attribute(path, name string) (value string, ok bool, err error) {
	var buf [256]byte
	n, err := unix.Lgetxattr(path, name, buf[:])
	switch {
	case err == nil:
		return string(buf[:n]), true, nil
	case errors.Is(err, unix.ERANGE):
		return "something long", true, nil
	case errors.Is(err, unix.ENODATA), errors.Is(err, unix.EOPNOTSUPP):
		return "", false, nil
	}
	return "", false, fmt.Errorf("attribute %s: %w", name, err)
}

// openDir opens a directory whose parents only the plugin can change.
func openDir(path string) (*os.File, error) {
	return os.OpenFile(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
}

// entry is a name in one layer or in an upper.
type entry struct {
	kind     uint32 // unix.S_IFDIR and the like, whiteout, or 0 if the name does not exist
	opaque   bool   // a directory that hides those with its name in the layers below
	redirect bool   // a renamed directory: it shows one with another name in the layers below
}

// entryAt returns the entry with this name in dir.
func entryAt(dir *os.File, name string) (e entry, err error) {
	st, err := stat(int(dir.Fd()), name)
	if errors.Is(err, unix.ENOENT) {
		return e, nil
	}
	if e.kind = kind(&st); err != nil || e.kind != unix.S_IFDIR {
		return e, err
	}
	path := below(int(dir.Fd()), name)
	opaque, _, err := attribute(path, opaqueAttr)
	if err == nil {
		_, e.redirect, err = attribute(path, redirectAttr)
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
		case kind == 0 && e.kind != whiteout:
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
	root, err := openDir(layer)
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

func (s spot) path() string { return below(int(s.dir.Fd()), s.name) }

// locate returns the spot of rel in an upper that nobody uses any more.
func locate(upper, rel string) (s spot, err error) {
	dir, err := openDir(upper)
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
		case e.kind == whiteout:
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
