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

// Reference is another checkout of the same repository with the same uid, cone and NoLFS.
// It must not change while it is used. The zero value means none.
type Reference struct {
	Index string
	Dirs  []string // the checkout's layers, topmost first
}

func (r Reference) paths() []string {
	if r.Index == "" {
		return nil
	}
	return append([]string{r.Index}, r.Dirs...)
}

// takeTimes gives the entries of files that are the same in the reference their times
// there, for settle, so that make and other tools do not take every file for a new one
// after a full checkout.
//
// A file is the same if its mode and object ID are, and no .gitattributes that may apply
// to it has changed. If one has, takeTimes compares the bytes, which costs less than
// writing them did. Pointers of git-lfs, which are filled later, then keep their own
// times.
//
// If the reference can't be read, all files keep their own times.
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
				mayDiffer := e.IsRegular() && anyAbove(changed, e.Name())
				if isPointer && (mayDiffer || e.Size() != uint32(size)) || !isPointer && mayDiffer && !ix.sameContent(e, a[:], b[:]) {
					e.ClearStat()
				}
			}
			return nil
		})
	}
	_ = g.Wait() // never fails
}

// match copies times and sizes from the reference's index: see gitindex.Index.Match.
func (ix *index) match() (changed map[string]bool, err error) {
	data, unmap, err := mapFile(ix.checkout.Like.Index)
	if err != nil {
		return nil, err
	}
	defer unmap()
	return ix.Match(data)
}

// mapFile maps a file into memory, because it may be as large as our own index, which is
// in memory already.
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

// anyAbove reports whether one of the directories is above a file.
func anyAbove(dirs map[string]bool, name string) bool {
	for len(dirs) > 0 && name != "." {
		if name = path.Dir(name); dirs[name] {
			return true
		}
	}
	return false
}

// sameContent reports whether the file of an entry, which has the reference's time and size, has
// the same content there. It uses the buffers a and b, which have the same length.
func (ix *index) sameContent(e gitindex.Entry, a, b []byte) bool {
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

// open opens a file of the reference in the topmost layer that has it.
func (r Reference) open(name string) (f *os.File, err error) {
	err = os.ErrNotExist
	for _, dir := range r.Dirs {
		if f, err = os.Open(filepath.Join(dir, name)); !errors.Is(err, os.ErrNotExist) {
			break
		}
	}
	return f, err
}
