package replica

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/disk/upfile"
)

// maxParts bounds the directories that are open at a time: each level of a merge has one for each layer that has it.
const maxParts = 4000

// Merge makes the empty directory dst one layer that shows, over any layers below, what uppers show there together,
// topmost first. All are on one filesystem, and nobody writes to any of them meanwhile. Uppers, and dst, may be used as
// lower layers at the same time.
//
// Files become hard links, so they take no room and have one link more than before. A file is copied if that is
// impossible, if it has one link and Options.Mounted says that something is mounted on its upper, and if an upper has
// only its metadata and another one the data; Limits.Bytes bounds that. Directories are made anew. An error, which may
// be a *LimitError, that of Room or the context's, leaves an incomplete layer. Nothing is synced. Of the Options,
// Limits, Room and Mounted count.
func Merge(ctx context.Context, uppers []*os.File, dst *os.File, o Options) (Result, error) {
	if o.Mounted == nil {
		o.Mounted = func(int) bool { return false }
	}
	o = Options{Limits: o.Limits, Room: o.Room, Mounted: o.Mounted, Untied: true}
	p := &pass{Replica: &Replica{dst: dst, options: o, afterData: func(string) {}}, ctx: ctx}
	m := &merger{worker: &worker{pass: p}, tops: uppers, copies: make(map[copied]place), linked: make(map[uint64]struct{})}
	top := &merged{reaches: true}
	defer func() { m.close(top) }()
	for i, upper := range uppers {
		if err := m.open(top, i, int(upper.Fd()), "."); err != nil {
			return Result{}, err
		}
	}
	out, err := openDir(int(dst.Fd()), ".")
	if err != nil {
		return Result{}, err
	}
	top.out = out
	err = m.fill(top)
	if err == nil {
		err = m.completeDir(top, "", "")
	}
	c := &p.result
	return Result{
		Files: c.files.Load(), Dirs: c.dirs, Copied: c.copied.Load(), Cloned: c.cloned.Load(), Made: m.made, Whole: m.made.Add(m.shared),
	}, err
}

// merger merges layers. Its worker copies files.
type merger struct {
	*worker
	tops   []*os.File
	parts  int                 // that are open
	copies map[copied]place    // of inodes with several names
	linked map[uint64]struct{} // the numbers of inodes with several names, for shared
	made   disk.Size
	shared disk.Size // what links and clones take
}

// copied is an inode of a layer, and what its copy leads to.
type copied struct {
	inode, data identity
	next        string
}

// place is where the copy of an inode is. Places in one directory share its path.
type place struct {
	dir  []string
	name string
}

// merged is a directory that several layers have together.
type merged struct {
	path  []string
	parts []part   // topmost first
	out   *os.File // the directory that is made
	// reaches is set if the layers below all may have a part of it too.
	reaches bool
	// whiteouts is set if there are any in out.
	whiteouts bool
}

// mergeError says at which path a merge failed.
type mergeError struct {
	path string
	err  error
}

func (e *mergeError) Error() string { return fmt.Sprintf("merge %q: %v", e.path, e.err) }

func (e *mergeError) Unwrap() error { return e.err }

// part is what one layer has of a directory.
type part struct {
	layer int
	dir   *os.File
}

// open adds what a layer has of a directory.
func (m *merger) open(d *merged, layer, dir int, name string) error {
	if m.parts++; m.parts > maxParts {
		return fmt.Errorf("its directories have more than %d parts in all layers", maxParts)
	}
	f, err := openDir(dir, name)
	if err != nil {
		return fmt.Errorf("open directory: %w", err)
	}
	d.parts = append(d.parts, part{layer, f})
	return nil
}

func (m *merger) close(d *merged) {
	for _, p := range d.parts {
		p.dir.Close()
	}
	m.parts -= len(d.parts)
	if d.out != nil {
		d.out.Close()
	}
}

// fill makes all that is in a directory.
func (m *merger) fill(d *merged) error {
	first := make(map[string]int) // the first part that has a name
	for i, p := range d.parts {
		for {
			names, err := p.dir.Readdirnames(batch)
			for _, name := range names {
				if m.entries += 1 + int64(len(name))/longName; m.entries > m.options.Entries {
					return &LimitError{Entries, m.options.Entries}
				}
				if _, ok := first[name]; !ok {
					first[name] = i
				}
			}
			if err == io.EOF {
				break
			}
			if err != nil {
				return fmt.Errorf("read directory: %w", err)
			}
			if err := m.ctx.Err(); err != nil {
				return err
			}
		}
	}
	for name, i := range first {
		if err := m.ctx.Err(); err != nil {
			return context.Cause(m.ctx)
		}
		if err := m.make(d, name, d.parts[i:]); err != nil {
			return err
		}
	}
	return nil
}

// make makes what a directory shows at a name. parts are those that may have it.
func (m *merger) make(d *merged, name string, parts []part) (err error) {
	l := &lookup{name: name}
	var top, data *found
	from := 0 // the layer of top
	dir := &merged{path: append(d.path[:len(d.path):len(d.path)], name)}
	defer func() {
		top.close()
		data.close()
		m.close(dir)
		var named *mergeError
		if err != nil && !errors.As(err, &named) {
			err = &mergeError{strings.Join(dir.path, "/"), err}
		}
	}()
	look := func(layer int, in *os.File) error {
		f, err := l.in(in, m.tops[layer])
		switch {
		case err != nil || f == nil:
			return err
		case l.isDir:
			err = m.open(dir, layer, f.dir, f.name)
		case top != nil && !l.metacopy:
			data = f
			return nil
		}
		if top == nil {
			top, from = f, layer
		} else {
			f.close()
		}
		return err
	}
	next := len(m.tops)
	for i := 0; i < len(parts) && !l.stop; i++ {
		if err := look(parts[i].layer, parts[i].dir); err != nil {
			return err
		}
		if l.absolute() {
			next = parts[i].layer + 1
			break
		}
	}
	for ; next < len(m.tops) && !l.stop; next++ {
		if err := look(next, nil); err != nil {
			return err
		}
	}
	dir.reaches = !l.stop && (l.absolute() || d.reaches)
	switch {
	case top == nil && d.reaches:
		d.whiteouts = true
		return m.whiteout(d, name)
	case top == nil:
		return nil
	case l.isDir:
		return m.makeDir(d, dir, name, l)
	}
	m.result.files.Add(1)
	switch {
	case data == nil && !l.metacopy, data == nil && dir.reaches && l.name == top.next:
		if done, err := m.link(d, name, top, from); done || err != nil {
			return err
		}
	case data == nil && !dir.reaches:
		return errors.New("no layer has its data")
	}
	return m.copyTo(d, name, top, data, l)
}

// takes returns what a file takes.
func takes(st *unix.Statx_t) disk.Size { return disk.Size{Bytes: int64(st.Blocks) * 512, Inodes: 1} }

// whiteout hides a name of the layers below.
func (m *merger) whiteout(d *merged, name string) error {
	if err := m.write(inodeCost); err != nil {
		return err
	}
	m.made.Inodes++
	return unix.Mknodat(int(d.out.Fd()), name, unix.S_IFCHR|0o600, 0)
}

// makeDir makes a directory with all that is in it.
func (m *merger) makeDir(d, dir *merged, name string, l *lookup) (err error) {
	if len(dir.path) > m.options.Depth {
		return &LimitError{Levels, int64(m.options.Depth)}
	}
	if err := m.write(inodeCost); err != nil {
		return err
	}
	if err := unix.Mkdirat(int(d.out.Fd()), name, 0o700); err != nil {
		return err
	}
	if dir.out, err = openDir(int(d.out.Fd()), name); err != nil {
		return err
	}
	m.result.dirs++
	if err := m.fill(dir); err != nil {
		return err
	}
	attribute, value := "", ""
	switch {
	case dir.reaches && l.name != name:
		attribute, value = upfile.RedirectAttr, l.name
	case !dir.reaches && d.reaches:
		attribute, value = upfile.OpaqueAttr, "y"
	}
	return m.completeDir(dir, attribute, value)
}

// completeDir gives a directory the metadata of its topmost part, and an attribute of overlayfs, unless that is empty.
func (m *merger) completeDir(d *merged, attribute, value string) error {
	from, to := int(d.parts[0].dir.Fd()), upfile.Below(int(d.out.Fd()), ".")
	st, err := statFile(from)
	if err != nil {
		return err
	}
	w := meta{from: ofFile(from), to: to, st: &st, untied: len(d.path) == 0}
	if err := errors.Join(w.before(), untie(to, upfile.OpaqueAttr, upfile.RedirectAttr)); err != nil {
		return err
	}
	if attribute != "" {
		if err := unix.Lsetxattr(to, attribute, []byte(value), 0); err != nil {
			return fmt.Errorf("attribute %s: %w", attribute, err)
		}
	}
	if d.whiteouts && len(d.path) > 0 {
		// The kernel looks for whiteouts in what several layers have, and in what has this attribute.
		if err := unix.Lsetxattr(to, originAttr, nil, unix.XATTR_CREATE); err != nil && !errors.Is(err, unix.EEXIST) {
			return fmt.Errorf("attribute %s: %w", originAttr, err)
		}
	}
	made, err := statFile(int(d.out.Fd()))
	m.made = m.made.Add(takes(&made))
	return errors.Join(err, w.after())
}

// untie removes attributes.
func untie(path string, names ...string) error {
	for _, name := range names {
		if err := unix.Lremovexattr(path, name); err != nil && !errors.Is(err, unix.ENODATA) {
			return fmt.Errorf("remove attribute %s: %w", name, err)
		}
	}
	return nil
}
