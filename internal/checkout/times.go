package checkout

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/gitindex"
	"github.com/helmdeck/repos/internal/lfs"
)

// Reference is another checkout of the same repository, by the same uid, with the same
// cone and NoLFS. Nothing changes it while it is used. The zero value is none.
type Reference struct {
	Index string
	Dirs  []string // what the checkout's directory is made of, the topmost layer first
}

func (r Reference) paths() []string {
	if r.Index == "" {
		return nil
	}
	return append([]string{r.Index}, r.Dirs...)
}

// takeTimes gives the entries of files that are the same in the reference the times
// that they have there, for settle: so make and others do not take every file of a tree
// that was checked out whole for a new one.
//
// A file is the same if its mode and object ID are, and no .gitattributes that may say
// how it is written has changed. Where one has, its bytes are compared: that costs
// less than to write them did. The pointers of git-lfs are filled later: where one has
// changed, they have their own times.
//
// A reference that can't be read is no error: all files have their own times then.
func (ix *index) takeTimes(pointers []lfs.Pointer) {
	changed, err := ix.match()
	if err != nil {
		for _, e := range ix.Entries {
			e.ClearStat()
		}
		return
	}
	sizes := make(map[string]int64, len(pointers))
	for _, p := range pointers {
		sizes[string(p.Path)] = p.Size
	}
	var g errgroup.Group
	workers := max(1, min(runtime.NumCPU(), 8))
	for w := range workers {
		g.Go(func() error {
			var a, b [64 << 10]byte
			for i := w; i < len(ix.Entries); i += workers {
				e := ix.Entries[i]
				if e.Mtime() == 0 {
					continue
				}
				size, isPointer := sizes[e.Name()]
				mayDiffer := e.IsRegular() && reaches(changed, e.Name())
				if isPointer && (mayDiffer || e.Size() != uint32(size)) || !isPointer && mayDiffer && !ix.same(e, a[:], b[:]) {
					e.ClearStat()
				}
			}
			return nil
		})
	}
	_ = g.Wait() // there is no error
}

// match has the index take what it has in common with that of the reference.
func (ix *index) match() (changed map[string]bool, err error) {
	data, unmap, err := mapFile(ix.checkout.Like.Index)
	if err != nil {
		return nil, err
	}
	defer unmap()
	return ix.Match(data)
}

// mapFile maps a file into memory, for it may be as large as an index of our own, of
// which there is one in memory already.
func mapFile(name string) (data []byte, unmap func() error, err error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	if info.Size() == 0 || info.Size() > maxIndex {
		return nil, nil, errors.New("not an index")
	}
	data, err = unix.Mmap(int(f.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_PRIVATE)
	return data, func() error { return unix.Munmap(data) }, err
}

// reaches reports whether a file is in one of the directories, or below it.
func reaches(dirs map[string]bool, name string) bool {
	for len(dirs) > 0 && name != "." {
		if name = path.Dir(name); dirs[name] {
			return true
		}
	}
	return false
}

// same reports whether the file of an entry, which has the time and size that the one
// of the reference has, is the same as that. It uses a and b, which are of one length.
func (ix *index) same(e gitindex.Entry, a, b []byte) bool {
	f, err := os.Open(filepath.Join(ix.checkout.Dir, e.Name()))
	if err != nil {
		return false
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || uint32(info.Size()) != e.Size() {
		return false
	}
	other, err := ix.checkout.Like.open(e.Name())
	if err != nil {
		return false
	}
	defer other.Close()
	was, err := other.Stat()
	if err != nil || was.Size() != info.Size() || was.ModTime().UnixNano() != e.Mtime() {
		return false
	}
	for {
		n, err := io.ReadFull(f, a)
		m, otherErr := io.ReadFull(other, b)
		if n != m || !bytes.Equal(a[:n], b[:m]) || err != otherErr {
			return false
		}
		if err != nil {
			return err == io.EOF || err == io.ErrUnexpectedEOF
		}
	}
}

// open opens a file that is in the reference's index: it is in the topmost layer that
// has one of that name.
func (r Reference) open(name string) (f *os.File, err error) {
	err = os.ErrNotExist
	for _, dir := range r.Dirs {
		if f, err = os.Open(filepath.Join(dir, name)); !errors.Is(err, os.ErrNotExist) {
			break
		}
	}
	return f, err
}
