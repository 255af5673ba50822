package cache

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/disk/upfile"
)

// rest is how long collecting and merging rest, in percent of the time that they work.
const rest = 100

// dryRest is rest if nobody waits for what is found.
const dryRest = 900

// niceness is what they yield of a busy processor. It is low, because the next workspace waits for what is published.
const niceness = 3

// Union links the merged files of layers, topmost first, into the empty directory to, as an overlay would show them. It
// leaves out what is at the path without, unless that is "". Layers that are missing are as empty ones.
func Union(ctx context.Context, layers []string, to string, uid, gid int, without string) (size disk.Size, err error) {
	out, err := openTarget(to, uid, gid)
	if err != nil {
		return size, err
	}
	defer out.close()
	u := &union{ctx: ctx, out: out, without: without, hidden: make(map[string]bool)}
	disk.Nice(niceness, func() {
		for _, layer := range layers {
			if err = u.add(layer); err != nil {
				return
			}
		}
		size, err = disk.Measure(ctx, to)
	})
	return size, err
}

// maxHidden bounds the memory for what a layer hides in those below: nothing, if Collect has made them.
const maxHidden = 1000

// union is a disk.Visitor for one layer after the other.
type union struct {
	ctx     context.Context
	out     *target
	without string
	names   []string        // of the current entry and its parents
	hidden  map[string]bool // directories that a layer above the current one has as something else
	hides   []string        // directories that the current layer has as something else
	err     error           // the first
}

func (u *union) add(layer string) error {
	dir, err := upfile.OpenDir(layer)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	ctx, stop := context.WithCancel(u.ctx)
	defer stop()
	u.hides = nil
	err = disk.WalkBelow(ctx, dir, ".", u, disk.NewPace(rest))
	if u.err != nil {
		err = fmt.Errorf("merge %q: %w", layer, u.err)
	}
	for _, rel := range u.hides {
		u.hidden[rel] = true
	}
	if len(u.hidden) > maxHidden && err == nil {
		err = fmt.Errorf("merge %q: it hides too many directories", layer)
	}
	return err
}

func (u *union) Visit(e disk.Entry) (enter bool) {
	if e.Depth == 0 || u.err != nil {
		return u.err == nil
	}
	u.names = append(u.names[:e.Depth-1], e.Name)
	rel := strings.Join(u.names, "/")
	if rel == u.without || u.hidden[rel] {
		return false
	}
	st, err := upfile.Stat(e.Dir, e.Name)
	if err == nil {
		enter, err = u.link(e, rel, &st)
	}
	u.fail(rel, err)
	return enter && err == nil
}

// link links the entry, or makes its directory, unless a layer above has something else at its path.
func (u *union) link(e disk.Entry, rel string, st *unix.Stat_t) (enter bool, err error) {
	in, err := u.out.dir(path.Dir(rel))
	if err != nil {
		return false, err
	}
	to := int(in.Fd())
	if upfile.Kind(st) == unix.S_IFDIR {
		old, err := upfile.Stat(to, e.Name)
		if errors.Is(err, fs.ErrNotExist) {
			_, err = u.out.dir(rel)
			return true, err
		}
		return upfile.Kind(&old) == unix.S_IFDIR, err
	}
	err = unix.Linkat(e.Dir, e.Name, to, e.Name, 0)
	switch {
	case errors.Is(err, unix.EMLINK):
		return false, u.copy(e, to, st)
	case !errors.Is(err, fs.ErrExist):
		return false, err
	}
	if old, err := upfile.Stat(to, e.Name); err != nil {
		return false, err
	} else if upfile.Kind(&old) == unix.S_IFDIR && len(u.hides) <= maxHidden {
		u.hides = append(u.hides, rel)
	}
	return false, nil
}

// copy copies a file whose inode has as many names as it can have.
func (u *union) copy(e disk.Entry, to int, st *unix.Stat_t) error {
	fd, err := disk.OpenAt(e.Dir, e.Name, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return err
	}
	in := os.NewFile(uintptr(fd), e.Name)
	defer in.Close()
	c := upfile.NewCopier(u.ctx, st.Size)
	if err := copyTo(&c, in, to, e.Name, st.Size); err != nil {
		return err
	}
	return setAttributes(to, e.Name, u.out.uid, u.out.gid, st.Mode, st.Mtim)
}

func (u *union) Leave(disk.Entry) {}

func (u *union) Skip(e disk.Entry, err error) { u.fail(e.Name, err) }

func (u *union) fail(rel string, err error) {
	if err != nil && u.err == nil {
		u.err = fmt.Errorf("%q: %w", rel, err)
	}
}
