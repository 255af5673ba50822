package replica

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/disk/upfile"
)

// settled is how old a ctime must be to tell whether the inode changes afterwards. The kernel's clock has ticks of up
// to 10 ms; the rest is for a change that has its ctime, but is not done.
const settled = 100 * time.Millisecond

// identity tells inodes apart, also one from a later one with its number.
type identity struct {
	ino  uint64
	born int64
}

// entry is a name of the copy, and the inode of the source that it is a copy of.
type entry struct {
	name string
	identity
	ctime int64 // 0: that of the source can't be trusted
	held  int64 // bytes of data that this name added to the copy
	table *table
	kind  uint32 // as of upfile.Kind; 0: the copy has no such name
}

// table has the entries of a directory of the copy, ordered by name.
type table struct {
	up      *table
	name    string
	entries []entry
}

// kindOf is upfile.Kind.
func kindOf(st *unix.Statx_t) uint32 {
	if kind := uint32(st.Mode) & unix.S_IFMT; kind != unix.S_IFCHR || st.Rdev_major|st.Rdev_minor != 0 {
		return kind
	}
	return upfile.Whiteout
}

func identityOf(st *unix.Statx_t) identity { return identity{st.Ino, nanos(st.Btime)} }

func nanos(t unix.StatxTimestamp) int64 { return t.Sec*1e9 + int64(t.Nsec) }

// record makes e that of an inode as st describes it, and as it was after now.
func (e *entry) record(st *unix.Statx_t, now time.Time) {
	e.identity, e.kind, e.ctime = identityOf(st), kindOf(st), nanos(st.Ctime)
	if e.ctime > now.Add(-settled).UnixNano() {
		e.ctime = 0
	}
}

// current reports whether the copy is one of the inode that st describes, as it is now.
func (e *entry) current(st *unix.Statx_t) bool {
	kind := kindOf(st)
	if e.kind == upfile.Whiteout && kind == upfile.Whiteout {
		return true // they share an inode, whose ctime changes with each
	}
	return e.kind == kind && e.ctime != 0 && e.ctime == nanos(st.Ctime) && e.identity == identityOf(st)
}

// holds returns the bytes that the names at e and below added to the copy.
func (e *entry) holds() int64 {
	n := e.held
	if e.table != nil {
		for i := range e.table.entries {
			n += e.table.entries[i].holds()
		}
	}
	return n
}

// path returns the names from the top to the directory.
func (t *table) path() []string {
	if t.up == nil {
		return nil
	}
	return append(t.up.path(), t.name)
}
