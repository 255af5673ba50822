package warm

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// leaveOut says why nothing may be stacked at rel on a tree of these layers,
// topmost first: it would change what the commit says. Empty if nothing speaks
// against it.
func leaveOut(layers []string, rel string) (reason string, err error) {
	names := strings.Split(rel, "/")
	for i := range names {
		at := path.Join(names[:i+1]...)
		var mode uint32
		if layers, mode, err = look(layers, at); err != nil {
			return "", err
		}
		switch {
		case mode == 0:
			return "", nil
		case i == len(names)-1:
			return "the commit has it", nil
		case mode != unix.S_IFDIR:
			return fmt.Sprintf("%s is no directory in the commit", at), nil
		}
	}
	return "", nil
}

// look returns of what kind rel is, 0 if it is not there, and of a directory the
// layers in which it is. All on the way is known to be a directory in them.
func look(layers []string, rel string) (in []string, mode uint32, err error) {
	for _, layer := range layers {
		found, opaque, err := lookIn(layer, rel)
		switch {
		case err != nil:
			return nil, 0, fmt.Errorf("look for %q in %q: %w", rel, layer, err)
		case found == 0:
			continue
		case found == unix.S_IFDIR:
			in, mode = append(in, layer), found
			if opaque {
				return in, mode, nil
			}
			continue
		case mode == 0 && found != whiteout:
			return nil, found, nil
		}
		return in, mode, nil // it hides what is below
	}
	return in, mode, nil
}

// whiteout is a kind that no file has.
const whiteout = unix.S_IFMT

func lookIn(layer, rel string) (mode uint32, opaque bool, err error) {
	dir, err := openDir(layer)
	if err != nil {
		return 0, false, err
	}
	defer dir.Close()
	if parent := path.Dir(rel); parent != "." {
		if dir, err = openBelow(int(dir.Fd()), parent, unix.O_PATH); err != nil {
			return 0, false, err
		}
		defer dir.Close()
	}
	st, err := stat(int(dir.Fd()), path.Base(rel))
	switch {
	case errors.Is(err, unix.ENOENT):
		return 0, false, nil
	case err != nil:
		return 0, false, err
	case isWhiteout(&st):
		return whiteout, false, nil
	case kind(&st) != unix.S_IFDIR:
		return kind(&st), false, nil
	}
	value, _, err := attribute(below(int(dir.Fd()), path.Base(rel)), opaqueAttr)
	return unix.S_IFDIR, value == "y", err
}
