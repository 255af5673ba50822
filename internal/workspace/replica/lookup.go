package replica

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/disk/upfile"
)

// lookup finds a name of a merged directory in one layer after the other, as the kernel does (ovl_lookup_single and
// ovl_lookup_layer in fs/overlayfs/namei.c).
type lookup struct {
	// name is what the next layer has: a name in its part of the directory, or a path from its top, which begins with "/".
	name string
	// stop is set if no layer below is looked at.
	stop     bool
	isDir    bool // a directory was found
	metacopy bool // the last that was found is a file without data
}

// absolute reports whether the layers below are searched from their tops.
func (l *lookup) absolute() bool { return l.name[0] == '/' }

// found is what a lookup found in one layer.
type found struct {
	dir  int // where name is
	name string
	st   unix.Statx_t
	// next is what it names in the layers below: itself, or its redirect.
	next string
	// parent is dir if it was opened to be searched; nil otherwise.
	parent *os.File
}

func (f *found) close() {
	if f != nil && f.parent != nil {
		f.parent.Close()
	}
}

// in looks in a layer: in its part of the directory, or from its top.
func (l *lookup) in(part, top *os.File) (*found, error) {
	if !l.absolute() {
		return l.step(int(part.Fd()), l.name, "", "")
	}
	var parent *os.File
	for dir, rest := int(top.Fd()), l.name[1:]; ; {
		name, after, more := strings.Cut(rest, "/")
		before, suffix := l.name[:len(l.name)-len(rest)], ""
		if more {
			suffix = "/" + after
		}
		f, err := l.step(dir, name, before, suffix)
		if err == nil && f != nil && more {
			var next *os.File
			if next, err = openDir(dir, name); err == nil {
				if parent != nil {
					parent.Close()
				}
				parent, dir, rest = next, int(next.Fd()), after
				continue
			}
		}
		if err != nil || f == nil {
			if parent != nil {
				parent.Close()
			}
			return nil, err
		}
		f.parent = parent
		return f, nil
	}
}

// step looks up one name in a directory of a layer. before and after are what l.name has on both sides of it. The result
// is nil if the layer has nothing to show there.
func (l *lookup) step(dir int, name, before, after string) (*found, error) {
	last := after == ""
	st, err := statName(dir, name)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENAMETOOLONG) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("stat %q: %w", name, err)
	}
	f := &found{dir: dir, name: name, st: st, next: name}
	path := upfile.Below(dir, name)
	switch kind := kindOf(&st); {
	case kind == upfile.Whiteout, last && l.metacopy && kind != unix.S_IFREG, kind != unix.S_IFDIR && (l.isDir || !last):
		l.stop = true
		return nil, nil
	case kind != unix.S_IFDIR:
		if kind == unix.S_IFREG {
			if _, l.metacopy, err = upfile.Attribute(path, upfile.MetacopyAttr); err != nil {
				return nil, err
			}
		}
		if !l.metacopy || kind != unix.S_IFREG {
			l.metacopy, l.stop = false, true
			return f, nil
		}
	default:
		l.isDir = l.isDir || last
		opaque, _, err := upfile.Attribute(path, upfile.OpaqueAttr)
		switch {
		case err != nil:
			return nil, err
		case opaque == "y":
			l.stop = true
			return f, nil
		case opaque != "":
			return nil, fmt.Errorf("%q has whiteouts that are attributes (%q)", name, opaque)
		}
	}
	redirect, err := redirectOf(path)
	if err != nil {
		return nil, fmt.Errorf("%q: %w", name, err)
	}
	switch {
	case redirect == "":
	case redirect[0] == '/':
		l.stop = false // also below what is opaque
		l.name, f.next = redirect+after, redirect
	default:
		l.name, f.next = before+redirect+after, redirect
	}
	return f, nil
}

// redirectOf returns the redirect of a directory or a file; empty if it has none.
func redirectOf(path string) (string, error) {
	buf := buffers.Get().(*[maxAttribute]byte)
	defer buffers.Put(buf)
	n, err := unix.Lgetxattr(path, upfile.RedirectAttr, buf[:])
	if errors.Is(err, unix.ENODATA) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("attribute %s: %w", upfile.RedirectAttr, err)
	}
	r := string(buf[:n])
	if names := strings.TrimPrefix(r, "/"); names == "" || names == r && strings.Contains(r, "/") || strings.Contains("/"+names+"/", "//") {
		return "", fmt.Errorf("its redirect %q is none", r)
	}
	return r, nil
}
