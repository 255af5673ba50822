package project

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/disk/durable"
)

// Of returns the project of a directory.
func (q *Quotas) Of(dir string) (uint32, error) {
	f, err := os.OpenFile(dir, unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	var a fileAttr
	if err := ioctl(int(f.Fd()), getAttr, &a); err != nil {
		return 0, fmt.Errorf("project of %q: %w", dir, err)
	}
	return a.project, nil
}

// Move gives a file, or a directory with the directories and files in it, a project, which all that is made in the
// directory inherits; 0 for none. The directory comes last, so after a crash it does not have the project. Nobody may be
// writing to it, but a container may have written it.
func (q *Quotas) Move(ctx context.Context, path string, id uint32) error {
	return q.move(ctx, path, mover{id: id})
}

// MoveUpper is Move for the upper of an overlay, whose work directory, empty, has the project already. It makes the
// overlay's whiteouts anew, because the kernel exchanges one with a directory from there that a container makes in its
// place. It can't do so with symbolic links: a container's rename of one fails with EXDEV, and mv copies it.
func (q *Quotas) MoveUpper(ctx context.Context, upper, work string, id uint32) error {
	dir, err := os.Open(work)
	if err != nil {
		return err
	}
	defer dir.Close()
	return q.move(ctx, upper, mover{id: id, work: dir})
}

func (q *Quotas) move(ctx context.Context, path string, m mover) error {
	if err := q.Supported(); err != nil {
		return err
	}
	err := disk.Walk(ctx, path, &m, nil)
	if err = errors.Join(err, m.err); err != nil {
		return fmt.Errorf("give %q project %d: %w", path, m.id, err)
	}
	return nil
}

// mover is a disk.Visitor.
type mover struct {
	id   uint32
	work *os.File // where whiteouts are made; nil: they stay
	err  error    // the first
}

func (m *mover) Visit(e disk.Entry) (enter bool) {
	switch e.Kind() {
	case unix.DT_DIR:
		return true
	case unix.DT_REG:
		m.move(e, 0)
	case unix.DT_CHR:
		m.whiteout(e)
	}
	return false
}

func (m *mover) Leave(e disk.Entry) { m.move(e, unix.O_DIRECTORY) }

func (m *mover) Skip(_ disk.Entry, err error) { m.failed(err) }

func (m *mover) move(e disk.Entry, flags int) {
	fd, err := disk.OpenAt(e.Dir, e.Name, flags|unix.O_NONBLOCK|unix.O_NOATIME)
	if err == nil {
		err = assign(fd, m.id, flags != 0)
		unix.Close(fd)
	}
	m.failed(err)
}

// whiteout replaces a whiteout, a device with the number 0, by a new one.
func (m *mover) whiteout(e disk.Entry) {
	var st unix.Stat_t
	err := unix.Fstatat(e.Dir, e.Name, &st, unix.AT_SYMLINK_NOFOLLOW)
	if err == nil && st.Rdev == 0 && m.work != nil {
		const name = "whiteout"
		work := int(m.work.Fd())
		err = errors.Join(unix.Mknodat(work, name, unix.S_IFCHR, 0), durable.RenameVolatile(below(work, name), below(e.Dir, e.Name)))
	}
	m.failed(err)
}

// below returns a path of a name in an open directory.
func below(dir int, name string) string { return fmt.Sprintf("/proc/self/fd/%d/%s", dir, name) }

func (m *mover) failed(err error) {
	if m.err == nil && !errors.Is(err, unix.ENOENT) {
		m.err = err
	}
}

// assign gives an open file or directory a project.
func assign(fd int, id uint32, dir bool) error {
	var a fileAttr
	if err := ioctl(fd, getAttr, &a); err != nil || a.project == id && (!dir || a.flags&inherit != 0 == (id != 0)) {
		return err
	}
	a.project, a.flags = id, a.flags&^inherit
	if dir && id != 0 {
		a.flags |= inherit
	}
	return ioctl(fd, setAttr, &a)
}
