package changes

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/tests/testdir"
)

// archived returns an archive of what changed.
func (w *world) archived() []byte {
	w.t.Helper()
	set, _ := w.find()
	var b bytes.Buffer
	must(w.t, set.Tar(w.t.Context(), w.source(), Owner{1000, 1001}, false, &b))
	return b.Bytes()
}

// entries returns the entries of an archive by name.
func entries(t *testing.T, data []byte) (names []string, headers map[string]*tar.Header, contents map[string]string) {
	t.Helper()
	headers, contents = make(map[string]*tar.Header), make(map[string]string)
	for r := tar.NewReader(bytes.NewReader(data)); ; {
		h, err := r.Next()
		if err == io.EOF {
			return names, headers, contents
		}
		must(t, err)
		text, err := io.ReadAll(r)
		must(t, err)
		names = append(names, h.Name)
		headers[h.Name], contents[h.Name] = h, string(text)
	}
}

// TestTar: the archive has what was added and changed, links as links, and no special files; the
// documented commands apply it.
func TestTar(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write("README", "changed\n")
	w.write("new/a\nb", "x")
	w.write("\xff", "y")
	w.write(strings.Repeat("long/", 60)+"name", "z")
	w.write("y.o", "ignored")
	w.write(TarDir+"/deleted", "mine")
	must(t, os.Remove(w.path("link")), os.Symlink("/etc/passwd", w.path("link")), os.RemoveAll(w.path("src")), os.Remove(w.path("tool")),
		unix.Mkfifo(w.path("fifo"), 0o644), unix.Mknod(w.path("null"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))),
		os.Chmod(w.path("README"), 0o755), unix.Chmod(w.path("new/a\nb"), 0o6755), os.Chtimes(w.path("README"), epoch, epoch))
	data := w.archived()
	names, headers, contents := entries(t, data)
	if names[0] != DeletedName || contents[DeletedName] != "src/a.c\x00src/b.c\x00src/deep/c.c\x00tool\x00" {
		t.Errorf("first is %q, with %q", names[0], contents[names[0]])
	}
	if last := names[len(names)-1]; last != LeftOutName {
		t.Errorf("last is %q", last)
	}
	contains(t, "what is left out", contents[LeftOutName], `"fifo": it is a FIFO`, `"null": it is a device`, `".helmdeck-export/deleted": the archive uses this name`)
	want(t, "entries", names[1:len(names)-1], "README", "new/a\nb", "\xff", strings.Repeat("long/", 60)+"name", "link")
	if h := headers["README"]; h.Mode != 0o755 || !h.ModTime.Equal(epoch) || h.Uid != 1000 || h.Gid != 1001 {
		t.Errorf("README: %+v", h)
	}
	if h := headers["new/a\nb"]; h.Mode != 0o755 {
		t.Errorf("a setuid program: %+v", h)
	}
	if h := headers["link"]; h.Typeflag != tar.TypeSymlink || h.Linkname != "/etc/passwd" {
		t.Errorf("link: %+v", h)
	}
	dir := w.checkout()
	file := filepath.Join(testdir.NewIn(t, w.root, "tar"), "x.tar")
	must(t, os.WriteFile(file, data, 0o644))
	cmd := exec.Command("sh", "-ec", "tar -xOf $0 .helmdeck-export/deleted | xargs -0 -r rm -f --; tar -xf $0 --exclude=.helmdeck-export", file)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	got, now := files(t, dir), files(t, w.spec.Target)
	delete(now, "y.o")
	delete(now, TarDir+"/deleted")
	for name, text := range now {
		if got[name] != text {
			t.Errorf("%q is %q, want %q", name, got[name], text)
		}
		delete(got, name)
	}
	if len(got) > 0 {
		t.Errorf("left: %q", got)
	}
}

// TestTarSparse: a file of nothing but holes has a limit.
func TestTarSparse(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write("huge", "")
	w.write("small", "x")
	must(t, os.Truncate(w.path("huge"), maxTarFile+1), os.Truncate(w.path("big"), 1<<40))
	_, headers, contents := entries(t, w.archived())
	contains(t, "what is left out", contents[LeftOutName], `"huge": it has more than 4294967296 bytes`, `"big": it has more`)
	if headers["small"] == nil || headers["huge"] != nil {
		t.Errorf("entries %v", headers)
	}
}

// shrinking is a file that loses its content while it is read.
type shrinking struct{ path string }

func (s shrinking) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("first")) {
		if err := os.Truncate(s.path, 3); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// TestTarChanging: a file that changes while it is read has the size that its header says.
func TestTarChanging(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write("a", "first\n"+strings.Repeat("x", 200_000))
	set, _ := w.find()
	var b bytes.Buffer
	must(t, set.Tar(t.Context(), w.source(), Owner{}, false, io.MultiWriter(&b, shrinking{w.path("a")})))
	_, headers, contents := entries(t, b.Bytes())
	if headers["a"].Size != 200_006 || !strings.HasSuffix(contents["a"], "\x00\x00") {
		t.Errorf("a: %+v", headers["a"])
	}
	contains(t, "what is left out", contents[LeftOutName], `"a": it was changed while it was read`)
}

// TestTarEnds: an archive that ends early lacks its end.
func TestTarEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write("a", strings.Repeat("x", 1_000_000))
	set, _ := w.find()
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("gone")
	var b bytes.Buffer
	err := set.Tar(ctx, w.source(), Owner{}, false, writerFunc(func(p []byte) (int, error) {
		if b.Len() > 100_000 {
			cancel(gone)
		}
		return b.Write(p)
	}))
	if !errors.Is(err, gone) {
		t.Error(err)
	}
	if b.Len() > 500_000 || bytes.HasSuffix(b.Bytes(), make([]byte, 1024)) {
		t.Errorf("%d bytes were written", b.Len())
	}
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// TestTarLeftOutBounds: what is said of files that are left out is bounded, however long their names are and whatever has
// to be escaped in them.
func TestTarLeftOutBounds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	set := &Set{All: func(yield func(Change, error) bool) {
		for i := range 20_000 { // none is there any more
			if !yield(Change{Path: fmt.Sprintf("%s%d", strings.Repeat("\xff", 200), i), Kind: Added}, nil) {
				return
			}
		}
	}}
	var b bytes.Buffer
	must(t, set.Tar(t.Context(), w.source(), Owner{}, false, &b))
	_, _, contents := entries(t, b.Bytes())
	text := contents[LeftOutName]
	if len(text) > maxRemarkBytes+maxRemarks+100 || !strings.HasSuffix(text, " more\n") {
		t.Errorf("%d bytes, to %q", len(text), text[max(0, len(text)-100):])
	}
}

// TestEndsWithContext: nothing is looked at after the end of the context.
func TestEndsWithContext(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i := range 100 {
		w.write(fmt.Sprintf("d%d/.gitignore", i), "x\n")
		w.write(fmt.Sprintf("d%d/x", i), "x")
	}
	set, _ := w.find()
	src := w.source()
	f := w.reader.newFinder(src)
	defer f.close()
	must(t, f.find(t.Context()))
	ctx, hangUp := context.WithCancelCause(t.Context())
	reason := errors.New("the client has hung up")
	hangUp(reason)
	if _, err := w.reader.Find(ctx, src); !errors.Is(err, reason) {
		t.Errorf("find: %v", err)
	}
	if _, err := (&ignorer{finder: f, side: src.After}).copyIgnores(ctx, filepath.Join(testdir.New(t, "ignores"), "work"), 10, 10); !errors.Is(err, reason) {
		t.Errorf("ignored files: %v", err)
	}
	if err := set.Tar(ctx, src, Owner{}, true, io.Discard); !errors.Is(err, reason) {
		t.Errorf("archive: %v", err)
	}
	p := &Patch{reader: w.reader}
	if err := p.copy(ctx, src, set, true, bufio.NewWriter(io.Discard)); !errors.Is(err, reason) {
		t.Errorf("patch: %v", err)
	}
}
