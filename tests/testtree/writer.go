// Package testtree writes to trees at random, in each way that a program can, and compares trees exactly.
package testtree

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"

	"golang.org/x/sys/unix"
)

// Writer does random operations below a directory. Most that fail do so because there is no such name.
type Writer struct {
	*rand.Rand
	root     string
	skip     string // a name in the root that is left alone
	mappings [][]byte
	Done     map[string]int // the operations that worked, by name
}

// NewWriter returns a Writer below root, which leaves the name skip in root alone, unless that is empty.
func NewWriter(root, skip string, seed uint64) *Writer {
	return &Writer{Rand: rand.New(rand.NewPCG(seed, 1)), root: root, skip: skip, Done: make(map[string]int)}
}

func (w *Writer) Close() {
	for _, m := range w.mappings {
		_ = unix.Munmap(m)
	}
}

// any returns an existing path for which ok is true, or the root.
func (w *Writer) any(ok func(os.FileMode) bool) string {
	path, found := w.root, w.root
	for {
		entries, _ := os.ReadDir(path)
		if path == w.root && w.skip != "" {
			entries = slices.DeleteFunc(entries, func(e os.DirEntry) bool { return e.Name() == w.skip })
		}
		if len(entries) == 0 {
			return found
		}
		e := entries[w.IntN(len(entries))]
		path = filepath.Join(path, e.Name())
		if ok(e.Type()) {
			found = path
		}
		if !e.IsDir() || w.IntN(5) == 0 {
			return found
		}
	}
}

func (w *Writer) dir() string   { return w.any(os.FileMode.IsDir) }
func (w *Writer) file() string  { return w.any(os.FileMode.IsRegular) }
func (w *Writer) entry() string { return w.any(func(os.FileMode) bool { return true }) }

// name returns a path that may exist or not.
func (w *Writer) name() string {
	names := []string{"a", "b", "c", "d0", "d1", "e", "f0", "f1", "l1", "new\nline", "\xff"}
	return filepath.Join(w.dir(), names[w.IntN(len(names))])
}

func (w *Writer) bytes(most int) []byte {
	data := make([]byte, w.IntN(most))
	for i := range data {
		data[i] = byte(w.Uint32())
	}
	return data
}

// edit calls f with a file that is open for writing.
func (w *Writer) edit(path string, f func(f *os.File) error) error {
	file, err := os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	return f(file)
}

// Create makes a file.
func (w *Writer) Create() error { return w.create(w.name()) }

// create makes a file, or replaces its data. It does not wait for the reader of a FIFO.
func (w *Writer) create(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.Write(w.bytes(20_000))
	return err
}

// ACL returns an ACL as the kernel stores it: version, and for each entry tag, permissions, ID.
func (w *Writer) ACL() []byte {
	var b bytes.Buffer
	put := func(v any) { _ = binary.Write(&b, binary.LittleEndian, v) }
	put(uint32(2))
	for _, e := range [][3]uint32{{1, 7, ^uint32(0)}, {2, w.Uint32N(8), 1000 + w.Uint32N(3)}, {4, 5, ^uint32(0)}, {0x10, w.Uint32N(8), ^uint32(0)}, {0x20, w.Uint32N(8), ^uint32(0)}} {
		put(uint16(e[0]))
		put(uint16(e[1]))
		put(e[2])
	}
	return b.Bytes()
}

// Capability is a value of security.capability, of version 2.
var Capability = append([]byte{1, 0, 0, 2, 0, 4}, make([]byte, 14)...)

// store writes to a mapping. Its file may be shorter by now: then that is a fault.
func (w *Writer) store() (err error) {
	if len(w.mappings) == 0 {
		return unix.ENOENT
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = unix.EFAULT
		}
	}()
	m := w.mappings[w.IntN(len(w.mappings))]
	m[w.IntN(len(m))]++
	return nil
}

func (w *Writer) mapFile() error {
	return w.edit(w.file(), func(f *os.File) error {
		st, err := f.Stat()
		if err != nil || st.Size() == 0 {
			return unix.EINVAL
		}
		m, err := unix.Mmap(int(f.Fd()), 0, int(st.Size()), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err != nil {
			return err
		}
		if w.mappings = append(w.mappings, m); len(w.mappings) > 6 {
			_ = unix.Munmap(w.mappings[0])
			w.mappings = w.mappings[1:]
		}
		return w.store()
	})
}

// syncDir syncs a directory.
func (w *Writer) syncDir() error {
	f, err := os.Open(w.dir())
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

type operation struct {
	name string
	do   func(w *Writer) error
}

var operations = []operation{
	{"create", func(w *Writer) error { return w.create(w.name()) }},
	{"write", func(w *Writer) error {
		return w.edit(w.file(), func(f *os.File) error { _, err := f.WriteAt(w.bytes(9000), w.Int64N(30_000)); return err })
	}},
	{"write a byte", func(w *Writer) error {
		return w.edit(w.file(), func(f *os.File) error { _, err := f.WriteAt([]byte{byte(w.Uint32())}, w.Int64N(100)); return err })
	}},
	{"truncate", func(w *Writer) error {
		return w.edit(w.file(), func(f *os.File) error { return f.Truncate(w.Int64N(60_000)) })
	}},
	{"allocate", func(w *Writer) error {
		return w.edit(w.file(), func(f *os.File) error {
			return unix.Fallocate(int(f.Fd()), w.Uint32N(2), w.Int64N(30_000), 1+w.Int64N(30_000)) // 1: keep the size
		})
	}},
	{"punch", func(w *Writer) error {
		return w.edit(w.file(), func(f *os.File) error {
			return unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, w.Int64N(30_000), 1+w.Int64N(30_000))
		})
	}},
	{"rename a file", func(w *Writer) error { return os.Rename(w.file(), w.name()) }},
	{"rename over", func(w *Writer) error { return os.Rename(w.file(), w.file()) }},
	{"rename a directory", func(w *Writer) error { return os.Rename(w.dir(), w.name()) }},
	{"exchange", func(w *Writer) error {
		return unix.Renameat2(unix.AT_FDCWD, w.entry(), unix.AT_FDCWD, w.entry(), unix.RENAME_EXCHANGE)
	}},
	{"link", func(w *Writer) error { return os.Link(w.file(), w.name()) }},
	{"link anything", func(w *Writer) error { return os.Link(w.entry(), w.name()) }},
	{"unlink", func(w *Writer) error { return unix.Unlink(w.entry()) }},
	{"rmdir", func(w *Writer) error { return unix.Rmdir(w.dir()) }},
	{"mkdir", func(w *Writer) error { return os.Mkdir(w.name(), 0o755) }},
	{"replace a directory", func(w *Writer) error {
		dir := w.dir()
		if dir == w.root || w.IntN(3) > 0 {
			return unix.EBUSY
		}
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
		return os.Mkdir(dir, 0o700)
	}},
	{"symlink", func(w *Writer) error { return os.Symlink(string(bytes.Repeat([]byte{'t'}, 1+w.IntN(200))), w.name()) }},
	{"fifo", func(w *Writer) error { return unix.Mkfifo(w.name(), 0o640) }},
	{"socket", func(w *Writer) error { return unix.Mknod(w.name(), unix.S_IFSOCK|0o755, 0) }},
	{"device", func(w *Writer) error { return unix.Mknod(w.name(), unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))) }},
	{"chmod", func(w *Writer) error { return unix.Fchmodat(unix.AT_FDCWD, w.entry(), w.Uint32N(0o10000), 0) }},
	{"chown", func(w *Writer) error { return os.Lchown(w.entry(), w.IntN(3)*1000, w.IntN(3)*1000) }},
	{"attribute", func(w *Writer) error {
		return unix.Lsetxattr(w.entry(), []string{"user.a", "user.b", "trusted.c"}[w.IntN(3)], w.bytes(100), 0)
	}},
	{"no attribute", func(w *Writer) error { return unix.Lremovexattr(w.entry(), "user.a") }},
	{"acl", func(w *Writer) error { return unix.Setxattr(w.entry(), "system.posix_acl_access", w.ACL(), 0) }},
	{"default acl", func(w *Writer) error { return unix.Setxattr(w.dir(), "system.posix_acl_default", w.ACL(), 0) }},
	{"no default acl", func(w *Writer) error { return unix.Removexattr(w.dir(), "system.posix_acl_default") }},
	{"capability", func(w *Writer) error { return unix.Setxattr(w.file(), "security.capability", Capability, 0) }},
	{"times", func(w *Writer) error {
		t := unix.Timespec{Sec: w.Int64N(2e9), Nsec: w.Int64N(1e9)}
		return unix.UtimesNanoAt(unix.AT_FDCWD, w.entry(), []unix.Timespec{t, t}, unix.AT_SYMLINK_NOFOLLOW)
	}},
	{"map", (*Writer).mapFile},
	{"store", (*Writer).store},
	{"store again", (*Writer).store},
	{"sync", func(w *Writer) error {
		return w.edit(w.file(), func(f *os.File) error { return errors.Join(f.Sync(), w.syncDir()) })
	}},
	{"temporary file", func(w *Writer) error {
		return w.edit(w.file(), func(f *os.File) error { // as editors save
			if err := w.create(f.Name() + "~"); err != nil {
				return err
			}
			return os.Rename(f.Name()+"~", f.Name())
		})
	}},
}

// Do does one operation, at the first of some random places where it works.
func (w *Writer) Do() {
	o := operations[w.IntN(len(operations))]
	for range 10 {
		if err := o.do(w); err == nil {
			w.Done[o.name]++
			return
		}
	}
}

// Missing returns the operations that never worked.
func Missing(done map[string]int) (list []string) {
	for _, o := range operations {
		if done[o.name] == 0 {
			list = append(list, fmt.Sprintf("%q", o.name))
		}
	}
	return list
}
