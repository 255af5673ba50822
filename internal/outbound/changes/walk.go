package changes

import (
	"strings"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/disk"
)

// position is where a walk is.
type position struct {
	names []string // of the current entry and its parents
}

// enter moves to an entry, and returns its path below the top.
func (p *position) enter(e disk.Entry) string {
	p.names = append(p.names[:e.Depth-1], e.Name)
	return strings.Join(p.names, "/")
}

// layerVisitor is a disk.Visitor for a layer. No directory whose path is too long is entered, so
// names are bounded.
type layerVisitor struct {
	*finder
	position
}

func (v *layerVisitor) Visit(e disk.Entry) (enter bool) {
	if e.Depth == 0 {
		return true
	}
	path := v.enter(e)
	if v.leftOut(path, e.Name) {
		return false
	}
	if e.Kind() != unix.DT_DIR {
		v.compare(path) // also a whiteout, behind which nothing is
		return false
	}
	v.noteModule(path)
	v.fileOrDirectory(path)
	// A directory of a layer says nothing about what is below it if it hides what is there in the
	// layers below, or shows another directory.
	if e.HasAttribute("trusted.overlay.opaque") || e.HasAttribute("trusted.overlay.redirect") {
		v.replaced(path)
		return false
	}
	return true
}

// fileOrDirectory notes a file that only one side has at the path of a directory of a layer.
func (f *finder) fileOrDirectory(path string) {
	switch old, now := f.look(f.Before.Root, path).comparable(), f.look(f.After.Root, path).comparable(); {
	case old && !now:
		f.add(path, Deleted)
	case now && !old:
		f.add(path, Added)
	}
}

// noteModule notes a directory if it is a submodule.
func (f *finder) noteModule(path string) {
	for _, side := range []Side{f.Before, f.After} {
		if f.look(side.Checkout, path+"/.git").kind != none {
			if f.modSize += len(path); f.modSize > maxModuleBytes {
				f.end(errModules)
				return
			}
			f.modules = append(f.modules, path)
			return
		}
	}
}

func (v *layerVisitor) Leave(disk.Entry) {}

func (v *layerVisitor) Skip(e disk.Entry, err error) {
	v.skipped(strings.Join(v.names[:max(0, min(e.Depth, len(v.names)))], "/"), err)
}

// skipped notes a directory that was not read to its end.
func (f *finder) skipped(path string, err error) {
	if absent(err) {
		return
	}
	f.omit(path+"/", "it can't be read: "+errorText(err))
	if f.cut == "" {
		f.cut = "a directory could not be read to its end, because it was moved or is not readable: run it again"
	}
}

// belowVisitor is a disk.Visitor for a directory in a view.
type belowVisitor struct {
	*finder
	position
	path  string // of the directory
	visit func(path string)
}

func (v *belowVisitor) Visit(e disk.Entry) (enter bool) {
	if e.Depth == 0 {
		return true
	}
	path := v.path + "/" + v.enter(e)
	if e.Name == ".git" {
		v.noteModule(path[:len(path)-len("/.git")])
	}
	if v.leftOut(path, e.Name) {
		return false
	}
	if e.Kind() == unix.DT_DIR {
		return true
	}
	v.visit(path)
	return false
}

func (v *belowVisitor) Leave(disk.Entry) {}

func (v *belowVisitor) Skip(e disk.Entry, err error) {
	if e.Depth > 0 { // the directory itself may have gone
		v.skipped(v.path, err)
	}
}
