package warm

import (
	"context"
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/disk/upfile"
	"github.com/helmdeck/repos/internal/overlay"
)

const (
	// niceness is what the walks of a promotion yield of a busy processor. It is low, because the next workspace may wait
	// for them.
	niceness = 3
	// copyRest is how long a promotion rests, in percent of the time that it works, once it has to copy.
	copyRest = 100
)

var errNoRoom = errors.New("the files without data of their own have more than a quarter of what is free on the disk")

// copies is what the copies of a promotion share.
type copies struct {
	upfile.Copier            // has the room that is left, once done is set
	pace          *disk.Pace // does not rest until there is something to copy
	done          func()     // ends the turn; nil before the first copy
}

func (c *copies) end() {
	if c.done != nil {
		c.done()
	}
}

// copier returns what copies for a path, up to the end of limited. Before the first copy of a promotion it waits until no other one of the clone
// copies, which may have moved the head of p: of workspaces that end together, one copies what only one can publish.
func (m *Manager) copier(ctx, limited context.Context, e Ended, p *promotion, c *copies) (*upfile.Copier, error) {
	if c.done == nil {
		done, err := m.copying.Lock(ctx, e.Clone)
		if err != nil {
			return nil, err
		}
		room, err := m.freeRoom()
		if err == nil {
			_, err = m.nextHead(e, p)
		}
		if err != nil {
			done()
			return nil, err
		}
		c.Copier, c.done = upfile.NewCopier(ctx, room), done
		c.pace.SetRest(copyRest)
	}
	c.Ctx = limited
	return &c.Copier, nil
}

// shown has the files of an ended workspace as its container saw them.
type shown struct {
	layers []string // the upper and the layers below, topmost first
	view   *os.File // of the layers, once a file was opened

	// For a directory that is made complete:
	copier func() (*upfile.Copier, error)
	pace   *disk.Pace // of the walk
}

func (s *shown) open(path string) (f *os.File, err error) {
	if s.view == nil {
		if s.view, err = overlay.View(overlay.Spec{Lower: s.layers, Metacopy: true}); err != nil {
			return nil, err
		}
	}
	return disk.Open(s.view, path, unix.O_RDONLY)
}

func (s *shown) close() error {
	if s.view == nil {
		return nil
	}
	return s.view.Close()
}

// complete gives a file of an upper its data, if only its mode, owner, times or name were changed: the data
// is in a layer below. from is the path at which the workspace showed it. Until the end the file is one without
// data, so it can be completed again after a crash.
//
// Each such file is the copy of another file of the layers, so a container can't make the plugin copy more than
// these have, nor more than there is room for.
func complete(ctx context.Context, e disk.Entry, st *unix.Stat_t, s *shown, from string) (err error) {
	c, err := s.copier()
	if err != nil {
		return err
	}
	in, err := s.open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	fd, err := disk.OpenAt(e.Dir, e.Name, unix.O_WRONLY|unix.O_NONBLOCK)
	if err != nil {
		return err
	}
	out := os.NewFile(uintptr(fd), e.Name)
	defer func() { err = errors.Join(err, out.Close()) }()
	var has unix.Stat_t
	if err := unix.Fstat(int(in.Fd()), &has); err != nil {
		return err
	}
	if has.Blocks*512 > c.Room+upfile.Chunk {
		return errNoRoom // spares the copy of a part
	}
	if err = c.CopyData(in, out, st.Size); errors.Is(err, upfile.ErrTooMuch) {
		err = errNoRoom
	}
	// A write clears setuid and sets the time, also if a later one fails.
	err = errors.Join(err, unix.Fchmod(fd, st.Mode&0o7777),
		unix.UtimesNanoAt(e.Dir, e.Name, []unix.Timespec{st.Atim, st.Mtim}, unix.AT_SYMLINK_NOFOLLOW))
	if err != nil {
		return err
	}
	if err := unix.Fremovexattr(fd, upfile.RedirectAttr); err != nil && !errors.Is(err, unix.ENODATA) {
		return err
	}
	return unix.Fremovexattr(fd, upfile.MetacopyAttr)
}
