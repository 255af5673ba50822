package cache

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/disk/durable"
	"github.com/helmdeck/repos/internal/disk/upfile"
	"github.com/helmdeck/repos/internal/failpoint"
)

var (
	errKind    = errors.New("it is neither a file nor a directory or link")
	errChanged = errors.New("it changed while it was read")
	errNoData  = errors.New("it is incomplete without the layers below")
	errUnder   = errors.New("a file of an unfinished change")
	errOpen    = errors.New("a database that was not closed")
	errLater   = errors.New("it was changed after the container had ended")
	errWriting = errors.New("it was just changed: a program may still be writing there")
	errRenamed = errors.New("a directory was renamed")
	errDropped = errors.New("what it was added to was dropped meanwhile")
	errTorn    = errors.New("nothing of it is published, because it may be incomplete")
	errDeep    = errors.New("it is too deep")
	errLarge   = errors.New("it is too large")
)

// farFuture is the time of files that are used for ever.
var farFuture = time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)

// file publishes an entry that is no directory, if it is new.
func (c *collector) file(e disk.Entry, rel string, st *unix.Stat_t) {
	var r rule
	if c.tree != nil && c.tree.torn {
		return
	}
	if c.unit != nil {
		r = c.unit.rule
		r.check = nil // it is for the mark
		switch {
		case c.unit.bad || matchAny(r.drop, e.Name):
			return
		case matchAny(r.torn, e.Name):
			c.spoil(rel, errUnder)
			return
		}
	} else if r = ruleFor(rel, false); r.as == never {
		return
	}
	if err := c.publish(e, rel, st, r); err != nil {
		if errors.Is(err, upfile.ErrTooMuch) {
			c.over("there is too much to copy")
		}
		c.spoil(rel, err)
	}
}

// publish puts a file or link into the new layer, if it is new. An error leaves it out.
func (c *collector) publish(e disk.Entry, rel string, st *unix.Stat_t, r rule) (err error) {
	kind := upfile.Kind(st)
	switch {
	case kind == upfile.Whiteout && c.unit == nil:
		return nil // deletions are not published
	case kind != unix.S_IFREG && kind != unix.S_IFLNK:
		return errKind
	case len(rel) > maxPath:
		return errDeep
	case kind == unix.S_IFREG && st.Size > maxFile:
		return errLarge
	case c.unit == nil && other(rel) && openDatabase(e):
		return errOpen
	}
	if r.as == remote {
		if r.as, err = c.fromRemote(e, rel); err != nil || r.as == never {
			return err
		}
		if e.Name == originsName {
			return c.mergeOrigins(rel)
		}
	}
	var old published
	if c.unit == nil {
		if old, err = c.published(rel, st); err != nil || !old.mayBecome(st, r) {
			return err
		}
	}
	var attrs []string
	noData := false
	if kind == unix.S_IFREG {
		if attrs, err = attributes(upfile.Below(e.Dir, e.Name)); err != nil {
			return err
		}
		if noData = slices.Contains(attrs, upfile.MetacopyAttr); noData {
			// At its own path, only its times, mode or owner are new.
			target, err := redirect(upfile.Below(e.Dir, e.Name))
			if own := target == "" || target == "/"+path.Join(Mount, rel); err == nil && own && c.unit != nil {
				err = errNoData
			} else if err == nil && own {
				return nil
			}
			if err != nil {
				return err
			}
		}
	}
	if r.as == replace && old.dir != nil && !c.Dry {
		if same, err := c.same(e, rel, st, old, noData); err != nil || same {
			return err
		}
	}
	if r.check != nil {
		if noData {
			return errNoData
		}
		if err := r.check(c, e, rel, st.Size); err != nil {
			return err
		}
	}
	return c.put(rel, func(to int) error { return c.place(e, rel, st, to, r, attrs, noData) })
}

// published is a file or link in the topmost layer that has it.
type published struct {
	dir *os.File // until the next look; nil if no layer has it
	unix.Stat_t
}

// published returns what layers have at rel. The error says that they have another kind of entry.
func (c *collector) published(rel string, st *unix.Stat_t) (p published, err error) {
	p.dir, p.Stat_t, err = c.pub.find(rel)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return published{}, nil
	case err == nil && upfile.Kind(&p.Stat_t) != upfile.Kind(st):
		err = errors.New("it is of another kind in the layers")
	}
	return p, err
}

// mayBecome reports whether a file or link with that rule takes its place, if the content is another one.
func (p published) mayBecome(st *unix.Stat_t, r rule) bool {
	switch {
	case p.dir == nil:
		return true
	case r.as == keep:
		return r.again && upfile.Kind(st) == unix.S_IFREG && st.Size > p.Size
	}
	return st.Mtim.Sec > p.Mtim.Sec || st.Mtim.Sec == p.Mtim.Sec && st.Mtim.Nsec > p.Mtim.Nsec
}

// same reports whether a file or link has the content of the published one.
func (c *collector) same(e disk.Entry, rel string, st *unix.Stat_t, old published, noData bool) (bool, error) {
	was := disk.Entry{Dir: int(old.dir.Fd()), Name: e.Name}
	if upfile.Kind(st) == unix.S_IFLNK {
		a, err := os.Readlink(upfile.Below(e.Dir, e.Name))
		b, err2 := os.Readlink(upfile.Below(was.Dir, was.Name))
		return a == b, errors.Join(err, err2)
	}
	if st.Size != old.Size || st.Size > maxCompared {
		return false, nil
	}
	a, err := c.openData(e, rel, noData)
	if err != nil {
		return false, err
	}
	defer a.Close()
	b, err := c.openData(was, rel, false)
	if err != nil {
		return false, err
	}
	defer b.Close()
	return sameContent(a, b)
}

// openDatabase reports whether a file is a database of SQLite that was not closed: it is no whole one without the other
// file.
func openDatabase(e disk.Entry) bool {
	return slices.ContainsFunc([]string{"-wal", "-shm", "-journal"}, func(suffix string) bool {
		st, err := upfile.Stat(e.Dir, e.Name+suffix)
		return err == nil && upfile.Kind(&st) != upfile.Whiteout
	})
}

// put counts a file or link of the new layer, which create makes in the directory to, unless Dry is set.
func (c *collector) put(rel string, create func(to int) error) error {
	dir, err := c.into(path.Dir(rel))
	if err == nil && !c.Dry {
		err = create(int(dir.Fd()))
	}
	if err != nil {
		return err
	}
	c.r.Files++
	if c.unit != nil {
		c.unit.files++
	}
	if c.tree != nil {
		c.tree.files++
	}
	return nil
}

// place makes a file or link in the directory to of the new layer.
func (c *collector) place(e disk.Entry, rel string, st *unix.Stat_t, to int, r rule, attrs []string, noData bool) (err error) {
	name := e.Name
	at := unix.NsecToTimespec(c.Now.UnixNano())
	switch {
	case r.ever:
		at = unix.NsecToTimespec(farFuture.UnixNano())
	case r.as == replace && time.Unix(st.Mtim.Unix()).Before(c.Now): // the next one is compared with it; nothing is of the future
		at = st.Mtim
	}
	is := copied{st.Ino, st.Mtim, at}
	switch {
	case upfile.Kind(st) == unix.S_IFLNK:
		var target string
		if target, err = os.Readlink(upfile.Below(e.Dir, name)); err == nil {
			err = unix.Symlinkat(target, to, name)
		}
	case c.Move && st.Nlink == 1 && !noData:
		err = durable.RenameVolatile(upfile.Below(e.Dir, name), upfile.Below(to, name))
		failpoint.Hit("cache/collect/moved")
		if errors.Is(err, unix.EXDEV) { // of another project
			err = c.copy(e, rel, st, to, noData)
		} else if err == nil {
			err = errors.Join(strip(upfile.Below(to, name), attrs), c.moved(upfile.Below(to, name)))
		}
	case st.Nlink > 1 && !noData && c.linked(to, name, is):
		// Otherwise many names of one large file would fill the disk.
	default:
		err = c.copy(e, rel, st, to, noData)
		if err == nil && st.Nlink > 1 && len(c.copies) < maxCopies {
			c.copies[is] = rel
		}
		if err == nil && r.check != nil { // a program may have begun to change it
			err = r.check(c, e, rel, st.Size)
		}
	}
	if err == nil {
		err = setAttributes(to, name, c.UID, c.GID, st.Mode, at)
	}
	if errors.Is(err, fs.ErrExist) {
		return err // a program has renamed it while its directory was read
	}
	if err != nil {
		if rm := unix.Unlinkat(to, name, 0); rm != nil && !errors.Is(rm, unix.ENOENT) {
			c.err = errors.Join(c.err, rm) // it may have another owner or attributes
		}
		c.out.prune(path.Dir(rel))
	}
	return err
}

// moved is Moved, which may be nil.
func (c *collector) moved(path string) error {
	if c.Moved == nil {
		return nil
	}
	return c.Moved(path)
}

// copied is what the names of one copy have in common: which file it is of, as that was then, and the time that the copy gets.
// Another file may have the same inode meanwhile.
type copied struct {
	ino     uint64
	was, at unix.Timespec
}

// linked makes name in the directory to a link to the copy of another name of the same file, if there is one.
func (c *collector) linked(to int, name string, is copied) bool {
	first, ok := c.copies[is]
	if !ok {
		return false
	}
	from, err := c.out.open(path.Dir(first))
	if err != nil {
		return false // it was of a unit that was left out
	}
	defer from.Close()
	return unix.Linkat(int(from.Fd()), path.Base(first), to, name, 0) == nil
}

// copy copies a file to the new layer.
func (c *collector) copy(e disk.Entry, rel string, st *unix.Stat_t, to int, noData bool) error {
	if !noData && st.Blocks*512 > c.copier.Room+upfile.Chunk {
		return upfile.ErrTooMuch // spares the copy of a part
	}
	in, err := c.openData(e, rel, noData)
	if err != nil {
		return err
	}
	defer in.Close()
	var before, after unix.Stat_t
	if err := unix.Fstat(int(in.Fd()), &before); err != nil {
		return err
	}
	if upfile.Kind(&before) != unix.S_IFREG || before.Size != st.Size || !noData && before.Ino != st.Ino {
		return errChanged
	}
	if err := copyTo(&c.copier, in, to, e.Name, st.Size); err != nil {
		return err
	}
	if err := unix.Fstat(int(in.Fd()), &after); err != nil {
		return err
	}
	if after.Size != st.Size || after.Mtim != before.Mtim || after.Ctim != before.Ctim || !noData && after.Ctim != st.Ctim {
		return errChanged
	}
	return nil
}

// openData opens a file for reading. The data of one without data of its own is in a layer below.
func (c *collector) openData(e disk.Entry, rel string, noData bool) (*os.File, error) {
	if noData {
		if c.Shown == nil {
			return nil, errNoData
		}
		return c.Shown(rel)
	}
	return openRegular(e.Dir, e.Name)
}

// openRegular opens a regular file for reading. It opens nothing else, because to open a device may do what it is for.
func openRegular(dir int, rel string) (*os.File, error) {
	at, err := disk.OpenAt(dir, rel, unix.O_PATH)
	if err != nil {
		return nil, err
	}
	defer unix.Close(at)
	var st unix.Stat_t
	if err := unix.Fstat(at, &st); err != nil {
		return nil, err
	}
	if upfile.Kind(&st) != unix.S_IFREG {
		return nil, errKind
	}
	fd, err := unix.Open("/proc/self/fd/"+strconv.Itoa(at), unix.O_RDONLY|unix.O_NOATIME|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), path.Base(rel)), nil
}
