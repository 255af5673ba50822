package changes

import (
	"archive/tar"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/failpoint"
)

const (
	// maxTarFile and maxTar bound the size of a file in an archive, and of all, in bytes with
	// their holes.
	maxTarFile, maxTar = 4 << 30, 16 << 30
)

const (
	// TarDir is the directory in an archive with what is said about it. A directory of a
	// workspace with this name is left out.
	TarDir = ".helmdeck-export"
	// DeletedName is the first entry of an archive: the paths that were deleted, each ended by
	// a zero.
	DeletedName = TarDir + "/deleted"
	// LeftOutName is the last entry, if something is left out: a line for each path.
	LeftOutName = TarDir + "/left-out"
)

// Owner is who the files of an archive belong to.
type Owner struct{ UID, GID int }

// Tar writes an archive of the files and links that were added or changed, with ignored ones if
// ignored is set. Without its end, which is two blocks of zeros, it is not complete: Tar has
// returned an error then.
func (s *Set) Tar(ctx context.Context, src Source, owner Owner, ignored bool, w io.Writer) error {
	t := &archive{Writer: tar.NewWriter(w), src: src, owner: owner, room: maxTar}
	for _, o := range s.Omitted {
		t.leftOut(o.Path, o.Why)
	}
	if s.Truncated != "" {
		t.missing.add("not complete: %s", s.Truncated)
	}
	if err := s.deleted(t); err != nil {
		return err
	}
	for c, err := range s.All {
		switch {
		case err != nil:
			return err
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case c.Kind == Deleted, c.Ignored && !ignored:
			continue
		case strings.HasPrefix(c.Path, TarDir+"/"):
			t.leftOut(c.Path, "the archive uses this name")
			continue
		}
		if err := t.add(ctx, c.Path); err != nil {
			return err
		}
		failpoint.Hit("changes/tar/file")
	}
	if text := t.missing.text(""); text != "" {
		if err := t.note(LeftOutName, []byte(text)); err != nil {
			return err
		}
	}
	return t.Close()
}

// deleted writes the entry with the paths that were deleted.
func (s *Set) deleted(t *archive) error {
	size := int64(0)
	for pass := range 2 { // the first one for the size in the header
		if pass == 1 {
			if err := t.header(DeletedName, size); err != nil {
				return err
			}
		}
		for c, err := range s.All {
			if err != nil {
				return err
			}
			if c.Kind != Deleted || strings.HasPrefix(c.Path, TarDir+"/") {
				continue
			}
			if size += int64(len(c.Path)) + 1; pass == 1 {
				if _, err := io.WriteString(t, c.Path+"\x00"); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// archive writes an archive.
type archive struct {
	*tar.Writer
	src     Source
	owner   Owner
	room    int64
	missing remarks
}

// leftOut notes a path that is not in the archive.
func (t *archive) leftOut(path, why string) { t.missing.add("%s: %s", quoted(path), why) }

// note writes a file of ours.
func (t *archive) note(name string, text []byte) error {
	err := t.header(name, int64(len(text)))
	if err == nil {
		_, err = t.Write(text)
	}
	return err
}

// header begins a file of ours.
func (t *archive) header(name string, size int64) error {
	return t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o644, ModTime: time.Now().Truncate(time.Second), Format: tar.FormatGNU})
}

// add writes a file or a link as it is now. The error is that of the writer.
func (t *archive) add(ctx context.Context, path string) error {
	c, err := open(t.src.After.Root, path)
	if err != nil {
		t.leftOut(path, "it can't be read: "+errorText(err))
		return nil
	}
	defer c.Close()
	h := &tar.Header{
		Typeflag: tar.TypeReg, Name: path, Size: c.size, Mode: int64(c.mode & 0o777), ModTime: time.Unix(0, 0),
		Uid: t.owner.UID, Gid: t.owner.GID, Format: tar.FormatGNU,
	}
	if c.kind == link {
		target, err := io.ReadAll(c.Reader)
		if err != nil {
			return err
		}
		h.Typeflag, h.Linkname, h.Size = tar.TypeSymlink, string(target), 0
		return t.WriteHeader(h)
	}
	var st unix.Stat_t
	if unix.Fstat(int(c.file.Fd()), &st) == nil {
		h.ModTime = time.Unix(st.Mtim.Sec, 0)
	}
	switch {
	case c.size > maxTarFile:
		t.leftOut(path, fmt.Sprintf("it has more than %d bytes", int64(maxTarFile)))
		return nil
	case c.size > t.room:
		t.leftOut(path, fmt.Sprintf("the files of the archive have more than %d bytes", int64(maxTar)))
		return nil
	}
	t.room -= c.size
	if err := t.WriteHeader(h); err != nil {
		return err
	}
	cut, err := copyExactly(&stoppable{ctx, t.Writer}, c)
	if cut {
		t.leftOut(path, "it was changed while it was read: it ends with zeros")
	}
	return err
}

// stoppable is a writer that ends with a context.
type stoppable struct {
	ctx context.Context
	io.Writer
}

func (s *stoppable) Write(p []byte) (int, error) {
	if s.ctx.Err() != nil {
		return 0, context.Cause(s.ctx)
	}
	return s.Writer.Write(p)
}
