package warm

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// state is what an upper says of a path.
type state int

const (
	untouched state = iota
	removed
	written
	strange // neither: nothing is published
)

// spot is where a path is in an upper.
type spot struct {
	state  state
	dir    *os.File // that it is in, to be closed; nil if there is nothing at the path itself
	name   string
	opaque bool   // what is below it does not show
	reason string // of strange
}

func (s spot) path() string { return below(int(s.dir.Fd()), s.name) }

// find looks for rel in an upper that nobody uses any more.
func find(upper, rel string) (spot, error) {
	dir, err := openDir(upper)
	if err != nil {
		return spot{}, err
	}
	opaque := false
	names := strings.Split(rel, "/")
	for i, name := range names {
		s, err := findIn(dir, name, i == len(names)-1)
		s.opaque = s.opaque || opaque
		switch {
		case err != nil:
			dir.Close()
			return spot{}, fmt.Errorf("look for %q in an upper: %w", rel, err)
		case s.state == untouched && opaque:
			s.state = removed // by its parent's removal
		}
		if s.state != written || i == len(names)-1 {
			if s.dir == nil {
				dir.Close()
			}
			return s, nil
		}
		next, err := openBelow(int(dir.Fd()), name, unix.O_PATH)
		dir.Close()
		if err != nil {
			return spot{}, err
		}
		dir, opaque = next, s.opaque
	}
	panic("a path without a name")
}

// findIn looks for a name that is a directory on the way to a path, or its end.
func findIn(dir *os.File, name string, last bool) (spot, error) {
	s := spot{name: name}
	st, err := stat(int(dir.Fd()), name)
	switch {
	case errors.Is(err, unix.ENOENT):
		return s, nil
	case err != nil:
		return s, err
	case isWhiteout(&st):
		s.state = removed
		if last {
			s.dir = dir
		}
		return s, nil
	case kind(&st) != unix.S_IFDIR:
		s.state, s.reason = strange, fmt.Sprintf("%s is no directory", name)
		return s, nil
	}
	s.state = written
	if last {
		s.dir = dir
	}
	path := below(int(dir.Fd()), name)
	_, redirect, err := attribute(path, redirectAttr)
	if err != nil {
		return s, err
	}
	if redirect {
		s.state, s.reason = strange, fmt.Sprintf("%s was renamed to what it is", name)
		return s, nil
	}
	opaque, _, err := attribute(path, opaqueAttr)
	s.opaque = opaque == "y"
	return s, err
}
