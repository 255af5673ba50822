package changes

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/work"
)

// TestPatch applies patches of each kind of change, and compares the result with the workspace.
func TestPatch(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		change func(w *world)
		parts  []string // of the patch
	}{
		{"nothing", func(w *world) {}, nil},
		{"text", func(w *world) { w.write("README", "hallo\nworld"); w.write("dir/new", "x\n") }, []string{"-hello\n+hallo\n+world\n\\ No newline", "+++ b/dir/new"}},
		{"empty files", func(w *world) { w.write("new", ""); must(w.t, os.Remove(w.path("empty"))); w.write("README", "") }, []string{"rename from empty\nrename to new\n"}},
		{"rename", func(w *world) { must(w.t, os.Rename(w.path("big"), w.path("large"))) }, []string{"rename from big\nrename to large\n"}},
		{"renamed directory", func(w *world) { must(w.t, os.Rename(w.path("src"), w.path("moved"))) }, []string{"rename from src/deep/c.c"}},
		{"mode", func(w *world) { must(w.t, os.Chmod(w.path("big"), 0o755)) }, []string{"old mode 100644\nnew mode 100755\n"}},
		{"links", func(w *world) {
			must(w.t, os.Remove(w.path("link")), os.Symlink("/etc/passwd", w.path("link")), os.Symlink("nowhere", w.path("new")))
		}, []string{"+/etc/passwd", "new file mode 120000"}},
		{"type", func(w *world) {
			must(w.t, os.Remove(w.path("link")), os.Remove(w.path("README")), os.Symlink("tool", w.path("README")))
			w.write("link", "file\n")
		}, []string{"deleted file mode 120000", "new file mode 120000"}},
		{"directory for a file", func(w *world) { must(w.t, os.Remove(w.path("README"))); w.write("README/x", "x\n") }, []string{"README/x"}},
		{"file for a directory", func(w *world) { must(w.t, os.RemoveAll(w.path("src"))); w.write("src", "x\n") }, []string{"a/src/deep/c.c"}},
		{"names", func(w *world) {
			w.write("a\nb", "x\n")
			w.write(`"quoted" \n`, "x\n")
			w.write("\xff\xfe", "x\n")
			w.write("\x1b[31m", "x\n")
			w.write(":(top)", "x\n")
			w.write("-o", "x\n")
			w.write("a b", "x\n")
			w.write("ü", "x\n")
		}, []string{`"b/a\nb"`, `"b/\377\376"`, `"b/\033[31m"`}},
		{"lines like a header", func(w *world) {
			w.write("README", "--- a/x\n+++ b/x\n@@ -1 +1 @@\ndiff --git a/y b/y\n# Binary files\n")
		}, nil},
		{"attributes", func(w *world) {
			w.write(".gitattributes", "* -diff diff=evil filter=evil -text\n")
			w.write("README", "one\r\ntwo\n")
			w.write("src/a.c", "changed\n")
		}, []string{"+one\r\n+two\n", "+changed\n"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			tt.change(w)
			patch := w.diff(false)
			contains(t, "the patch", patch, tt.parts...)
			dir := w.checkout()
			if patch != "" {
				apply(t, dir, patch)
			}
			got := files(t, dir)
			for name, text := range files(t, w.spec.Target) {
				if got[name] != text {
					t.Errorf("%q is %q, want %q", name, got[name], text)
				}
				delete(got, name)
			}
			if len(got) > 0 {
				t.Errorf("left: %q", got)
			}
			w.clean()
		})
	}
}

// TestPatchLeavesOut: what is not in a patch is named at its end, and git apply ignores that.
func TestPatchLeavesOut(t *testing.T) {
	t.Parallel()
	w := newWorldWith(t, func(dir string) {
		sample(t, dir)
		writeFile(t, filepath.Join(dir, "binary"), "a\x00b")
		writeFile(t, filepath.Join(dir, "gone"), "a\x00b")
	})
	w.write("README", "changed\n")
	w.write("binary", "text now\n")
	must(t, os.Remove(w.path("gone")), unix.Mkfifo(w.path("fifo"), 0o644), os.Truncate(w.path("big"), maxDiffFile+1))
	w.write("new\n\x1b[31m", "\x00")
	w.write("x/.GIT/config", "x")
	w.write("x/git~1", "x")
	w.write("y.o", "ignored\n")
	patch := w.diff(false)
	contains(t, "the patch", patch, `# Binary files "a/binary" and "b/binary" differ`, `# Binary files "a/gone" and /dev/null differ`,
		`# Binary files /dev/null and "b/new\n\x1b[31m" differ`, `# left out: "big": it has more than`, `# left out: "fifo": it is a FIFO`,
		`# left out: "x/.GIT/config": git allows no file`, `# left out: "x/git~1": git allows`, "+changed\n")
	if strings.Contains(patch, "y.o") {
		t.Errorf("it has an ignored file:\n%s", patch)
	}
	contains(t, "the patch with ignored files", w.diff(true), "+++ b/y.o")
	dir := w.checkout()
	apply(t, dir, patch)
	if got := files(t, dir); got["README"] != "file changed\n" || got["binary"] != "file a\x00b" {
		t.Errorf("after it: %q", got)
	}
}

// TestPatchTotal: the files of a patch have a limit together.
func TestPatchTotal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	text := strings.Repeat(strings.Repeat("x", 1023)+"\n", maxDiffFile/1024)
	for i := range maxDiff/maxDiffFile + 1 {
		w.write("new"+string(rune('a'+i)), text)
	}
	p, err := w.reader.Diff(t.Context(), w.source(), "sha1", false)
	must(t, err)
	defer p.Close()
	if p.files != maxDiff/maxDiffFile || len(p.remarks.lines) != 1 {
		t.Errorf("%d files, remarks %q", p.files, p.remarks.lines)
	}
}

// TestSHA256: the repository's hash function names the blobs.
func TestSHA256(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write("new", "x\n")
	p, err := w.reader.Diff(t.Context(), w.source(), "sha256", false)
	must(t, err)
	defer p.Close()
	var b strings.Builder
	must(t, p.Make(t.Context()), p.Write(t.Context(), &b))
	contains(t, "the patch", b.String(), "index "+strings.Repeat("0", 64)+"..")
}

// TestAllowedInGit has names that git refuses, so that one of them would spoil a patch.
func TestAllowedInGit(t *testing.T) {
	for path, want := range map[string]bool{
		"a/b": true, ".gitignore": true, "git": true, "x.git": true, "git~10": true, ".git": false, "a/.git/b": false, "a/.GiT": false, "git~1/x": false,
		".git ": false, ".git . ": false, ".git::$INDEX_ALLOCATION/x": false, `a\.git`: false, ".g\u200cit": false,
	} {
		if got := allowedInGit(path); got != want {
			t.Errorf("%q: %v, want %v", path, got, want)
		}
	}
}

// failing is a writer that fails.
type failing struct{ after int }

func (f *failing) Write(p []byte) (int, error) {
	if f.after -= len(p); f.after < 0 {
		return 0, fs.ErrClosed
	}
	return len(p), nil
}

// blocked is a writer that waits.
type blocked struct{ begun, end chan struct{} }

func (b *blocked) Write([]byte) (int, error) {
	close(b.begun)
	<-b.end
	return 0, fs.ErrClosed
}

// TestSlowReaderHoldsNoSlot: git does not wait for the reader of a patch, and holds no slot meanwhile.
func TestSlowReaderHoldsNoSlot(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := work.Limits{Slots: 1, PerSubject: 1}
	scheduler := work.NewScheduler([3]work.Limits{one, one, one})
	g, err := git.New(git.Config{UID: 64127, GID: 64127, Scheduler: scheduler})
	must(t, err)
	w.reader.Git = g
	w.write("new", strings.Repeat("x\n", 500_000))
	p, err := w.reader.Diff(t.Context(), w.source(), "sha1", false)
	must(t, err)
	defer p.Close()
	must(t, p.Make(t.Context()))
	b := &blocked{make(chan struct{}), make(chan struct{})}
	wrote := make(chan error)
	go func() { wrote <- p.Write(t.Context(), b) }()
	<-b.begun
	if held := scheduler.Load()[work.CPU].Held; held != 0 {
		t.Errorf("%d slots are held", held)
	}
	close(b.end)
	if err := <-wrote; !errors.Is(err, fs.ErrClosed) {
		t.Errorf("got %v", err)
	}
}

// TestFailedWrites: an output ends with the error of its writer.
func TestFailedWrites(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write("new", strings.Repeat("x\n", 500_000))
	p, err := w.reader.Diff(t.Context(), w.source(), "sha1", false)
	must(t, err)
	defer p.Close()
	must(t, p.Make(t.Context()))
	if err := p.Write(t.Context(), &failing{after: 100_000}); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("the patch: %v", err)
	}
	set, _ := w.find()
	if err := set.Tar(t.Context(), w.source(), Owner{}, false, &failing{after: 100_000}); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("the archive: %v", err)
	}
}
