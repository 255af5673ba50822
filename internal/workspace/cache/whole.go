package cache

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/disk/upfile"
)

// check returns why a file is not whole, or nil. It is for files that their tool writes under their final names: when the
// disk or a limit was full, or the tool was killed, the first part of such a file is left, and tools that trust names
// never write it again.
type check func(c *collector, e disk.Entry, rel string, size int64) error

var errCut = errors.New("it may be cut off")

// maxTail is how much of the end of a file is looked at: a zip archive may have a comment there.
const maxTail = 1024

// tail is a check of the end of a file.
func tail(whole func(end []byte) bool) check {
	return func(_ *collector, e disk.Entry, _ string, size int64) error {
		f, err := openRegular(e.Dir, e.Name)
		if err != nil {
			return err
		}
		defer f.Close()
		end := make([]byte, min(size, maxTail))
		n, err := f.ReadAt(end, size-int64(len(end)))
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if !whole(end[:n]) {
			return errCut
		}
		return nil
	}
}

// ends checks that a file ends with a text of at most maxTail bytes.
func ends(text string) check {
	return tail(func(end []byte) bool { return bytes.HasSuffix(end, []byte(text)) })
}

// zipEnd is what a zip archive ends with: a record of 22 bytes, and a comment that it has the length of.
func zipEnd(end []byte) bool {
	at := bytes.LastIndex(end, []byte("PK\x05\x06"))
	return at >= 0 && len(end) >= at+22 && int(binary.LittleEndian.Uint16(end[at+20:])) == len(end)-at-22
}

// tarEnd is what a tar archive ends with, such as a gem.
var tarEnd = strings.Repeat("\x00", 1024)

// signed is what an answer of the checksum database ends with: a line for each signature.
func signed(end []byte) bool {
	_, lines, ok := bytes.Cut(end, []byte("\n\n\u2014 "))
	return ok && bytes.HasSuffix(lines, []byte("\n"))
}

// fullTile checks a tile of the checksum database: 256 hashes, or W if its name is N.p/W.
func fullTile(_ *collector, _ disk.Entry, rel string, size int64) error {
	hashes := 256
	if strings.HasSuffix(path.Dir(rel), ".p") {
		hashes, _ = strconv.Atoi(path.Base(rel))
	}
	if size != int64(hashes)*32 {
		return errCut
	}
	return nil
}

// unpacked checks a crate. Cargo unpacks each that it has downloaded, also for cargo fetch, and then makes .cargo-ok, so
// the crate can be read to its end. That directory may be in the new layer already, or published before.
func unpacked(c *collector, _ disk.Entry, rel string, _ int64) error {
	name := strings.TrimSuffix(strings.TrimPrefix(rel, "cargo/registry/cache/"), ".crate")
	mark := path.Join("cargo/registry/src", name, ".cargo-ok")
	filled := func(st *unix.Stat_t) bool { return upfile.Kind(st) == unix.S_IFREG && st.Size > 0 }
	tops := []*os.File{c.From}
	if !c.Dry {
		tops = append(tops, c.out.top)
	}
	for _, top := range tops {
		f, err := disk.Open(top, mark, unix.O_PATH)
		if err != nil {
			continue
		}
		var st unix.Stat_t
		err = unix.Fstat(int(f.Fd()), &st)
		f.Close()
		if err == nil && filled(&st) {
			return nil
		}
	}
	_, st, err := c.pub.find(mark)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !filled(&st) {
		return errCut
	}
	return err
}

// gradleMark ends the name of a file that exists while Gradle writes the file beside it. If Gradle finds both, it removes
// both.
const gradleMark = ".fslck"

func unmarked(_ *collector, e disk.Entry, _ string, _ int64) error {
	st, err := upfile.Stat(e.Dir, e.Name+gradleMark)
	if errors.Is(err, fs.ErrNotExist) || err == nil && upfile.Kind(&st) == upfile.Whiteout {
		return nil
	}
	return errors.Join(err, errUnder)
}

// gradleLock is the first byte of Gradle's lock files: the version of their format. Two numbers of 8 bytes follow: one
// that the cache got when it was made, and how often it was changed, or 0 while it is being changed.
const gradleLock = 3

// closed checks an index of Gradle. Its lock file says whether somebody is changing it, or was killed meanwhile. Locks are
// not published, so that nobody would notice later, and a damaged index heals slowly: each part that is found to be corrupt
// is discarded, and what the others say about it stays.
func closed(c *collector, _ disk.Entry, _ string, _ int64) error {
	f, err := openRegular(int(c.From.Fd()), "gradle/caches/modules-2/modules-2.lock")
	if errors.Is(err, fs.ErrNotExist) {
		return errOpen
	}
	if err != nil {
		return err
	}
	defer f.Close()
	var head [17]byte
	_, err = io.ReadFull(f, head[:])
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errOpen
	}
	if head[0] != gradleLock || [8]byte(head[1:9]) == [8]byte{} || [8]byte(head[9:]) == [8]byte{} {
		return errors.Join(err, errOpen)
	}
	return err
}
