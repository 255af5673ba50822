package checkout

import (
	"crypto/sha1"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/git/gitindex"
	"github.com/helmdeck/repos/internal/git/gitref"
)

// indexMemory is the most memory that a process needs, per byte of an index that it
// reads.
const indexMemory = 3

// maxIndex bounds the size of an index: enough for two million files, several times those
// of the largest repositories that are not a company's monorepo.
const maxIndex = 256 << 20

// maxIndex returns maxIndex times the SizeFactor, in bytes.
func (c Spec) maxIndex() int64 { return int64(c.SizeFactor.Of(maxIndex)) }

// index is the index of a checkout, with the files that it wrote. It is not safe for
// concurrent use.
type index struct {
	*gitindex.Index
	checkout Spec
	written  map[string]bool // nil: all
	moved    bool            // the other files are in checkout.Below
	drafted  *os.File        // nil without a draft; open until write, or the end of the process
	// unencoded are the first maxUnencoded files that git could not encode.
	unencoded []Unencoded
}

// errFormat means that package gitindex can't read an index, though git might.
var errFormat = errors.New("the index has another format")

// idSize returns the length of the repository's object IDs in bytes.
func (c Spec) idSize() int {
	if gitref.Format(c.Commit) == gitref.SHA256 {
		return sha256.Size
	}
	return sha1.Size
}

// baseIndex returns the path of the index that Move starts from.
func (c Spec) baseIndex() string { return filepath.Join(c.Below[0], ".git", IndexFile) }

// sizeOf returns the size of a file in bytes, zero if it does not exist.
func sizeOf(path string) (int64, error) {
	info, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// readIndex reads an index in the checkout's GitDir.
func (c Spec) readIndex(name string) (*index, error) {
	return c.readIndexAt(filepath.Join(c.gitDir(), name))
}

// readIndexAt reads an index of the checkout, or of the one that it starts from.
func (c Spec) readIndexAt(path string) (*index, error) {
	info, err := os.Lstat(path)
	if err == nil && info.Size() > c.maxIndex() {
		err = fmt.Errorf("the commit %s has too many files: their index takes %.4g MiB, allowed are %.4g %s",
			c.Commit, float64(info.Size())/(1<<20), float64(c.maxIndex())/(1<<20), git.SizeSetting)
	}
	if err == nil && info.Size() > memoryLimit()/indexMemory {
		err = errMemory
	}
	if err != nil {
		return nil, err
	}
	data, err := mapFile(path, unix.PROT_READ|unix.PROT_WRITE)
	if err != nil {
		return nil, err
	}
	ix, err := gitindex.Parse(data, c.idSize())
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", errFormat, path, err)
	}
	return &index{Index: ix, checkout: c}, nil
}

// mapFile maps a file that nobody changes any more into memory, because the time to copy 10 MB
// is a third of the time to read an index. With PROT_WRITE the result can be changed, and the file
// stays as it is. The result is nil if the file is empty. It is mapped until Munmap, or the end
// of the process.
func mapFile(path string, protection int) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return nil, err
	}
	data, err := unix.Mmap(int(f.Fd()), 0, int(info.Size()), protection, unix.MAP_PRIVATE)
	if err != nil {
		return nil, fmt.Errorf("map %s: %w", path, err)
	}
	return data, nil
}

// draft writes the index before the stat data of its files is known. The first write of 10 MB
// takes 11 to 30 ms, nearly all of it for new pages of the page cache. git writes the files of a
// move meanwhile; then write uses the same pages again. The process of a move that changes 100
// files of 100,000 takes 58 ms with a draft and 72 ms without one. A larger index has no draft,
// because its data may be on the way to the disk already.
func (ix *index) draft() error {
	switch size, err := sizeOf(ix.checkout.baseIndex()); {
	case err != nil:
		return err
	case size > steadyAfter:
		return nil
	}
	f, err := ix.newFile()
	if err != nil {
		return err
	}
	ix.drafted = f
	return ix.EncodeBody(f)
}

// newFile makes the file of the index. It is a new one, because the old one may be a hard link of
// another layer's. It need not appear at once: nobody has seen this tree yet, and after a failure
// it is built again.
func (ix *index) newFile() (*os.File, error) {
	path := filepath.Join(ix.checkout.gitDir(), IndexFile)
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
}

// write writes the index, over its draft if there is one, which has the same length.
func (ix *index) write() (err error) {
	f := ix.drafted
	if f == nil {
		f, err = ix.newFile()
	} else {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return err
	}
	return errors.Join(ix.Encode(&steadyFile{File: f}), f.Close())
}

// steadyFile leaves the first steadyAfter bytes of a file to the kernel, so that files of this
// size, an index with some 150,000 entries, cost no wait for the disk. It syncs a larger
// file in units of steadyEvery bytes.
const (
	steadyAfter = 16 << 20
	steadyEvery = 4 << 20
)

// steadyFile syncs a file while it is written, at half of the disk's speed. The index of
// three million files has 250 MB: the next sync of anybody would write all dirty pages at
// once, and delay the commits of all subjects. With six such indexes the longest mount of
// another subject took 0.9 to 1.4 s; written like this, 0.1 s.
type steadyFile struct {
	*os.File
	written, steady int64
}

func (f *steadyFile) Write(p []byte) (int, error) {
	n, err := f.File.Write(p)
	f.written += int64(n)
	for err == nil && f.written > steadyAfter && f.written-f.steady >= steadyEvery {
		err = writeOut(f.File, f.steady, f.steady+steadyEvery)
		f.steady += steadyEvery
	}
	return n, err
}

// writeOut syncs a range of a file, and sleeps as long as that took.
func writeOut(f *os.File, from, to int64) error {
	const all = unix.SYNC_FILE_RANGE_WAIT_BEFORE | unix.SYNC_FILE_RANGE_WRITE | unix.SYNC_FILE_RANGE_WAIT_AFTER
	began := time.Now()
	err := unix.SyncFileRange(int(f.Fd()), from, to-from, all)
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ESPIPE) {
		return nil // not supported by this filesystem
	}
	time.Sleep(time.Since(began))
	return err
}

// writeOutFile syncs an existing file, such as git's own large index, as steadyFile does
// while writing.
func writeOutFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	for at := int64(0); at < info.Size(); at += steadyEvery {
		if err := writeOut(f, at, min(at+steadyEvery, info.Size())); err != nil {
			return err
		}
	}
	return nil
}

// wrote reports whether an entry's file was written by the checkout.
func (ix *index) wrote(e gitindex.Entry) bool {
	return e.IsFile() && (ix.written == nil || ix.written[e.Name()])
}

const (
	// setBack is how far the times of a tree's files are set back: git compares whole
	// seconds, and the clock may be at the end of one.
	setBack = 2 * time.Second
)

// complete sets the times of the files that the checkout wrote to those in their entries or,
// for those that have none, to one time for all of them, and writes the index with the stat
// data of all files that were written.
//
// It is one time, because several processes write the files side by side: a generated file
// that is committed beside its source could be older than that, and make would run the
// generator. The time is later than any in the entries.
//
// No file of a tree may have a time in the current second: git compares whole seconds, so
// git status would miss a same-size edit in the second of the checkout, and with an index
// as old as its files the first git status of every container reads all files. git could
// refresh the index itself, but would read every file again, through every filter.
func (ix *index) complete() error {
	c := ix.checkout
	dir, err := os.OpenFile(c.Dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer dir.Close()
	at := time.Now().Add(-setBack).UnixNano()
	entries := ix.Entries
	if ix.written != nil {
		entries = ix.Named(ix.written)
	}
	if err := each(entries, func(e gitindex.Entry) error {
		if !e.IsFile() {
			return nil
		}
		return completeEntry(int(dir.Fd()), e, at)
	}); err != nil {
		return err
	}
	return ix.write()
}

// each calls f for every entry, from several goroutines, and returns the first error. After an
// error it skips some of the other entries.
func each(entries []gitindex.Entry, f func(gitindex.Entry) error) error {
	var g errgroup.Group
	workers := max(1, min(runtime.NumCPU(), 8))
	for w := range workers {
		g.Go(func() error {
			for i := w; i < len(entries); i += workers {
				if err := f(entries[i]); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return g.Wait()
}

// completeEntry gives an entry's file the time in the entry, or at, in nanoseconds since 1970, if there is none, and
// stores its stat data in the entry. A later time than at comes from a wrong clock.
func completeEntry(dir int, e gitindex.Entry, at int64) error {
	if was := e.Mtime(); was != 0 {
		at = min(at, was)
	}
	t := unix.NsecToTimespec(at)
	if err := unix.UtimesNanoAt(dir, e.Name(), []unix.Timespec{t, t}, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return fmt.Errorf("utimensat %q: %w", e.Name(), err)
	}
	var st unix.Stat_t
	if err := unix.Fstatat(dir, e.Name(), &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return fmt.Errorf("fstatat %q: %w", e.Name(), err)
	}
	e.SetStat(&st)
	return nil
}
