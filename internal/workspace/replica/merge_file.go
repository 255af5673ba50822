package replica

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/disk/upfile"
)

// link makes a file a link to that of a layer, unless that is impossible, or changes a file in an overlay on the layer:
// one that was copied up there while the layer's had one link has the inode number of that, but only as long as it has
// one. Whoever is mounted on the layer later than the second link is made copies a file with two. A file with several
// is not asked about, so that its names stay those of one.
func (m *merger) link(d *merged, name string, f *found, layer int) (done bool, err error) {
	out, alone := int(d.out.Fd()), f.st.Nlink == 1
	if alone && m.options.Mounted(layer) {
		return false, nil
	}
	switch err := unix.Linkat(f.dir, f.name, out, name, 0); {
	case errors.Is(err, unix.EMLINK), errors.Is(err, unix.EPERM), errors.Is(err, unix.EXDEV):
		return false, nil
	case err != nil:
		return false, err
	case alone && m.options.Mounted(layer): // since the link was made, or a moment before
		return false, unix.Unlinkat(out, name, 0)
	}
	if _, known := m.linked[f.st.Ino]; !known {
		m.shared = m.shared.Add(takes(&f.st))
	}
	if !alone {
		m.linked[f.st.Ino] = struct{}{}
	}
	return true, nil
}

// copyTo makes a file a copy of top, with the data of data, if that is not nil, and else with its own. A file without
// data leads to l.name then. Names of one copy stay that.
func (m *merger) copyTo(d *merged, name string, top, data *found, l *lookup) error {
	key := copied{inode: identityOf(&top.st)}
	from := top
	switch {
	case data != nil:
		key.data, from = identityOf(&data.st), data
	case l.metacopy:
		key.next = l.name
	}
	out := int(d.out.Fd())
	if first, ok := m.copies[key]; ok {
		dir, err := m.openCopy(first.dir)
		if err != nil {
			return err
		}
		defer unix.Close(dir)
		if err := unix.Linkat(dir, first.name, out, name, 0); !errors.Is(err, unix.EMLINK) {
			return err
		}
	}
	cloned, err := m.create(out, name, top, from, l)
	if err != nil {
		return err
	}
	st, err := statName(out, name)
	if err != nil {
		return err
	}
	taken := takes(&st)
	if m.made = m.made.Add(taken); cloned {
		m.made.Bytes -= taken.Bytes
		m.shared.Bytes += taken.Bytes
	}
	if top.st.Nlink > 1 {
		m.copies[key] = place{d.path, name}
	}
	return nil
}

// create makes the copy of copyTo, with the data of from, or a clone of that.
func (m *merger) create(out int, name string, top, from *found, l *lookup) (cloned bool, err error) {
	if err := m.write(inodeCost); err != nil {
		return false, err
	}
	at := upfile.Below(out, name)
	w := meta{from: upfile.Below(top.dir, top.name), to: at, st: &top.st, unfollowed: true}
	if kind := kindOf(&top.st); kind != unix.S_IFREG {
		if err := m.createOther(out, name, top, kind); err != nil {
			return false, err
		}
		return false, errors.Join(w.before(), w.after())
	}
	fd, err := disk.OpenAt(from.dir, from.name, unix.O_RDONLY|unix.O_NOATIME|unix.O_NONBLOCK)
	if err != nil {
		return false, err
	}
	in := os.NewFile(uintptr(fd), name)
	defer in.Close()
	if fd, err = unix.Openat(out, name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o600); err != nil {
		return false, err
	}
	to := os.NewFile(uintptr(fd), name)
	defer to.Close()
	if err := errors.Join(w.before(), untie(at, upfile.RedirectAttr)); err != nil {
		return false, err
	}
	if l.metacopy && from == top {
		err = errors.Join(to.Truncate(int64(top.st.Size)), unix.Lsetxattr(at, upfile.RedirectAttr, []byte(l.name), 0))
	} else {
		cloned, err = m.copyData(&entry{}, in, to, int64(from.st.Size))
		err = errors.Join(err, untie(at, upfile.MetacopyAttr))
	}
	return cloned, errors.Join(err, w.after())
}

// createOther makes a link or a special file.
func (m *merger) createOther(out int, name string, top *found, kind uint32) error {
	if kind != unix.S_IFLNK {
		return unix.Mknodat(out, name, uint32(top.st.Mode)&unix.S_IFMT|0o600, int(unix.Mkdev(top.st.Rdev_major, top.st.Rdev_minor)))
	}
	fd, err := disk.OpenAt(top.dir, top.name, unix.O_PATH)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	target, err := readLink(fd)
	if err != nil {
		return err
	}
	return unix.Symlinkat(target, out, name)
}
