package warm

import (
	"context"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/disk/upfile"
	"github.com/helmdeck/repos/internal/meta"
)

// owners says who owns the files of a directory that becomes a layer. The user of a volume can't change or remove what
// another user has made, so what belongs to root is given to the volume's user, and other owners are named. Root can
// change everything: nothing is looked for in a volume whose user that is.
type owners struct {
	want    owner
	roots   bool    // something belongs to root, and should not
	foreign *uint32 // one of the other users; nil if there is none
}

// note notes the owner of an entry that is no whiteout.
func (o *owners) note(st *unix.Stat_t) {
	switch {
	case o.want.uid == 0 || int(st.Uid) == o.want.uid:
	case st.Uid == 0:
		o.roots = true
	case o.foreign == nil:
		uid := st.Uid
		o.foreign = &uid
	}
}

// repair gives what belongs to root in the directory at path to the volume's user and group. verify has walked it: no
// file in it has a name elsewhere, and none is shared with another layer. The kernel clears setuid bits and
// capabilities.
func (o *owners) repair(ctx context.Context, path string) error {
	if !o.roots {
		return nil
	}
	c := &chowner{to: o.want}
	if err := disk.Walk(ctx, path, c, nil); err != nil {
		return err
	}
	return c.err
}

// chowner is a disk.Visitor.
type chowner struct {
	to  owner
	err error // the first
}

func (c *chowner) Visit(e disk.Entry) (enter bool) {
	if c.err != nil {
		return false
	}
	st, err := upfile.Stat(e.Dir, e.Name)
	if err == nil && st.Uid == 0 && upfile.Kind(&st) != upfile.Whiteout {
		err = unix.Fchownat(e.Dir, e.Name, c.to.uid, c.to.gid, unix.AT_SYMLINK_NOFOLLOW)
	}
	if err != nil {
		c.err = fmt.Errorf("%q in it belongs to root, and can't be given to uid %d: %w", e.Name, c.to.uid, err)
	}
	return err == nil && upfile.Kind(&st) == unix.S_IFDIR
}

func (c *chowner) Leave(disk.Entry) {}

func (c *chowner) Skip(e disk.Entry, err error) {
	if c.err == nil {
		c.err = fmt.Errorf("%q: %w", e.Name, err)
	}
}

// foreign returns which user's files a new layer on a chain shows: one of its own, or else what the layer below knows. It
// logs a user that is not known yet.
func (m *Manager) foreign(ctx context.Context, clone, path string, uid uint32, own *uint32, chain []string) *uint32 {
	below := m.Foreign(clone, chain)
	if own == nil {
		return below
	}
	if below == nil || *below != *own {
		m.config.Log.WithContext(ctx).WithField("clone", clone).
			Warnf("warm path %q: it has files of uid %d, which uid %d, the volume's, can't change", path, *own, uid)
	}
	return own
}

// Foreign returns the uid of a user, neither root nor the volume's, who owns files in the layers of a chain; nil if
// none is known.
func (m *Manager) Foreign(clone string, chain []string) *uint32 {
	if len(chain) == 0 {
		return nil
	}
	top, _ := m.config.Layers.Set(clone).Get(meta.WarmLayer, chain[0])
	return top.Foreign
}
