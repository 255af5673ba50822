package checkout

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/git/gitindex"
	"github.com/helmdeck/repos/internal/repo/lfs"
)

// Reference is another checkout of the same repository with the same uid, cone and NoLFS,
// from which times are copied. It must not change meanwhile. The zero value means none.
type Reference struct {
	Index string
	Dirs  []string // the checkout's layers, topmost first
}

// copyTimes copies the times of files that are the same in the reference into their
// entries, for complete. Without that, make and other tools would take every file for a new
// one after a full checkout.
//
// A file is the same if its mode and object ID are, and no .gitattributes that may apply
// to it has changed. If one has, copyTimes compares the bytes, which costs less than
// writing them did. Pointers of git-lfs, which are filled later, then keep their own
// times.
//
// If the reference can't be read, all files keep their own times.
func (ix *index) copyTimes(pointers []lfs.Pointer) {
	changed, err := ix.copyStats()
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
	_ = each(ix.Entries, func(e gitindex.Entry) error { // never fails
		if e.Mtime() == 0 {
			return nil
		}
		size, isPointer := sizes[e.Name()]
		mayDiffer := e.IsRegular() && gitindex.AnyAbove(changed, e.Name())
		if isPointer && (mayDiffer || e.Size() != uint32(size)) || !isPointer && mayDiffer && !ix.sameContent(e) {
			e.ClearStat()
		}
		return nil
	})
}

// copyStats copies times and sizes from the reference's index: see
// gitindex.Index.CopyStats. It maps that index into memory, because it may be as large as
// our own, which is in memory already.
func (ix *index) copyStats() (changed map[string]bool, err error) {
	path := ix.checkout.TimesFrom.Index
	size, err := sizeOf(path)
	if err == nil && size > ix.checkout.maxIndex() {
		err = errors.New("not an index")
	}
	if err != nil {
		return nil, err
	}
	data, err := mapFile(path, unix.PROT_READ)
	if err != nil {
		return nil, err
	}
	defer unix.Munmap(data)
	return ix.CopyStats(data)
}

// sameContent reports whether the file of an entry, which has the reference's time and
// size, has the same content there.
func (ix *index) sameContent(e gitindex.Entry) bool {
	f, err := os.Open(filepath.Join(ix.checkout.Dir, e.Name()))
	if err != nil {
		return false
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || uint32(info.Size()) != e.Size() {
		return false
	}
	other, err := ix.checkout.TimesFrom.open(e.Name())
	if err != nil {
		return false
	}
	defer other.Close()
	was, err := other.Stat()
	if err != nil || was.Size() != info.Size() || was.ModTime().UnixNano() != e.Mtime() {
		return false
	}
	a, b := make([]byte, 32<<10), make([]byte, 32<<10)
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
