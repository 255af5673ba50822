package changes

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/tests/testgit"
)

// sample writes the files of most tests.
func sample(t *testing.T, dir string) {
	for name, text := range map[string]string{
		"README": "hello\n", "src/a.c": "a\n", "src/b.c": "b\n", "src/deep/c.c": "c\n", "tool": "#!/bin/sh\n", "big": strings.Repeat("x\n", 100_000),
		"other/x": "x\n", "other/y/z": "z\n", ".gitignore": "*.o\n/build/\n!keep.o\n", "empty": "", "tracked.o": "tracked\n",
	} {
		writeFile(t, filepath.Join(dir, name), text)
	}
	must(t, os.Symlink("README", filepath.Join(dir, "link")), os.Chmod(filepath.Join(dir, "tool"), 0o755))
}

// TestFind has each kind of change that an upper can show.
func TestFind(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		change func(w *world)
		want   []string
	}{
		{"nothing", func(w *world) {}, nil},
		{"added", func(w *world) { w.write("new", ""); w.write("dir/sub/new", "x") }, []string{"A new", "A dir/sub/new"}},
		{"changed", func(w *world) { w.write("README", "hallo\n"); w.write("big", "y\n") }, []string{"M README", "M big"}},
		{"written back", func(w *world) { w.write("README", "x"); w.write("README", "hello\n") }, nil},
		{"touched", func(w *world) { must(w.t, os.Chtimes(w.path("big"), epoch, epoch)) }, nil},
		{"group and others", func(w *world) { must(w.t, os.Chmod(w.path("big"), 0o600)) }, nil},
		{"executable", func(w *world) { must(w.t, os.Chmod(w.path("big"), 0o755), os.Chmod(w.path("tool"), 0o644)) }, []string{"M big", "M tool"}},
		{"deleted", func(w *world) { must(w.t, os.Remove(w.path("README")), os.RemoveAll(w.path("src"))) },
			[]string{"D README", "D src/a.c", "D src/b.c", "D src/deep/c.c"}},
		{"link", func(w *world) {
			must(w.t, os.Remove(w.path("link")), os.Symlink("tool", w.path("link")), os.Remove(w.path("README")), os.Symlink("/etc/passwd", w.path("README")))
		}, []string{"M link", "M README"}},
		{"file for a directory", func(w *world) { must(w.t, os.RemoveAll(w.path("src"))); w.write("src", "file") },
			[]string{"A src", "D src/a.c", "D src/b.c", "D src/deep/c.c"}},
		{"directory for a file", func(w *world) { must(w.t, os.Remove(w.path("README"))); w.write("README/x", "x") }, []string{"D README", "A README/x"}},
		{"replaced directory", func(w *world) {
			must(w.t, os.RemoveAll(w.path("src")))
			w.write("src/a.c", "a\n")
			w.write("src/b.c", "other\n")
			w.write("src/new", "x")
		}, []string{"M src/b.c", "A src/new", "D src/deep/c.c"}},
		{"renamed directory", func(w *world) { must(w.t, os.Rename(w.path("src"), w.path("moved"))); w.write("moved/a.c", "changed") },
			[]string{"A moved/a.c", "A moved/b.c", "A moved/deep/c.c", "D src/a.c", "D src/b.c", "D src/deep/c.c"}},
		{"exchanged directories", func(w *world) {
			must(w.t, os.Rename(w.path("src"), w.path("tmp")), os.Rename(w.path("other"), w.path("src")), os.Rename(w.path("tmp"), w.path("other")))
		}, []string{"D src/a.c", "D src/b.c", "D src/deep/c.c", "A src/x", "A src/y/z", "A other/a.c", "A other/b.c", "A other/deep/c.c", "D other/x", "D other/y/z"}},
		{"moved and back", func(w *world) {
			must(w.t, os.Rename(w.path("src"), w.path("tmp")), os.Rename(w.path("tmp"), w.path("src")))
		}, nil},
		{"renamed file", func(w *world) { must(w.t, os.Rename(w.path("big"), w.path("large"))) }, []string{"D big", "A large"}},
		{"hard link", func(w *world) { must(w.t, os.Link(w.path("big"), w.path("again"))) }, []string{"A again"}},
		{"ignored", func(w *world) {
			w.write("x.o", "")
			w.write("src/y.o", "")
			w.write("build/deep/z", "")
			w.write("keep.o", "")
			w.write("tracked.o", "changed")
			w.write("src/.gitignore", "!y.o\nlocal\n")
			w.write("src/local/x", "")
			w.write("local", "")
		}, []string{"! x.o", "A src/y.o", "! build/deep/z", "A keep.o", "M tracked.o", "A src/.gitignore", "! src/local/x", "A local"}},
		{"left out", func(w *world) {
			w.write(".git/config", "x")
			w.write(".git/hdcache/npm/x", "x")
			w.write("nested/.git/config", "x")
			w.write("nested/file", "x")
			w.write("warm/deep/x", "x")
			must(w.t, os.Symlink(".git/hdcache", w.path(".hdcache")))
		}, []string{"A nested/file"}},
		{"a file in the place of the link to the cache", func(w *world) { w.write(".hdcache", "x") }, []string{"A .hdcache"}},
		{"a directory in its place", func(w *world) { w.write(".hdcache/env", "x") }, []string{"A .hdcache/env"}},
		{"another link in its place", func(w *world) {
			must(w.t, os.Symlink(".git/hdcache/x", w.path(".hdcache")))
		}, []string{"A .hdcache"}},
		{"names", func(w *world) {
			w.write("a\nb", "x")
			w.write(`"quoted" \n`, "x")
			w.write("\xff\xfe", "x")
			w.write(" :(glob)*", "x")
			w.write(":(top)", "x")
			w.write("-o", "x")
		}, []string{"A a\nb", `A "quoted" \n`, "A \xff\xfe", "A  :(glob)*", "A :(top)", "A -o"}},
		{"special", func(w *world) {
			must(w.t, unix.Mkfifo(w.path("fifo"), 0o644), os.Remove(w.path("README")), unix.Mkfifo(w.path("README"), 0o644),
				unix.Mknod(w.path("null"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))))
		}, []string{"D README"}},
	} {
		for _, parked := range []bool{false, true} {
			t.Run(tt.name+map[bool]string{true: "/parked"}[parked], func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				w.skip = []string{"warm"}
				tt.change(w)
				if parked {
					w.park()
				}
				set, got := w.find()
				want(t, "changes", got, tt.want...)
				if set.Truncated != "" || tt.name == "special" && len(set.Omitted) != 3 {
					t.Errorf("truncated %q, left out %q", set.Truncated, set.Omitted)
				}
				w.clean()
			})
		}
	}
}

// TestFindCounts checks the counts, and that ignored files are not among those that were added.
func TestFindCounts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write("new", "")
	w.write("x.o", "")
	w.write("README", "x")
	must(t, os.Remove(w.path("tool")))
	set, _ := w.find()
	if set.Added != 1 || set.Changed != 1 || set.Deleted != 1 || set.Ignored != 1 {
		t.Errorf("%+v", set)
	}
}

// TestConverted: conversions of a checkout are no changes.
func TestConverted(t *testing.T) {
	t.Parallel()
	w := newWorldWith(t, func(dir string) {
		writeFile(t, filepath.Join(dir, ".gitattributes"), "*.txt eol=crlf\n")
		writeFile(t, filepath.Join(dir, "a.txt"), "one\r\ntwo\r\n")
	})
	must(t, os.Chtimes(w.path("a.txt"), epoch, epoch), os.Chmod(w.path("a.txt"), 0o664))
	_, got := w.find()
	want(t, "after a touch", got)
	w.write("a.txt", "one\ntwo\n")
	_, got = w.find()
	want(t, "after a change of line ends", got, "M a.txt")
}

// TestSubmodule: the files of a submodule are told from those of the repository.
func TestSubmodule(t *testing.T) {
	t.Parallel()
	w := newWorldWith(t, func(dir string) { sample(t, dir) })
	w.park()
	writeFile(t, filepath.Join(w.spec.Lower[1], "other/.git"), "gitdir: ../.git/modules/other\n")
	w.mount()
	w.write("other/x", "changed")
	w.write("other/y/new", "x")
	w.write("new", "x")
	modules := func() (list []string) {
		set, _ := w.find()
		for c, err := range set.All {
			must(t, err)
			list = append(list, c.Path+" in "+c.Module)
		}
		return list
	}
	want(t, "changed", modules(), "new in ", "other/x in other", "other/y/new in other")
	contains(t, "the patch", w.diff(false), `# left out: "other/x": it is in the submodule "other"`, "+++ b/new")
	must(t, os.RemoveAll(w.path("other")))
	want(t, "removed", modules(), "new in ", "other/x in other", "other/y/z in other")
}

// TestDifferential makes random changes, and compares what is found with what git says about a
// copy, and the result of the patch with the workspace.
func TestDifferential(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		w := newWorld(t)
		randomly(w, seed, 60)
		if seed%2 == 1 {
			w.park()
		}
		_, got := w.find()
		expected := gitSays(w)
		want(t, "changes", got, expected...)
		dir := w.checkout()
		patch := w.diff(false)
		if strings.Contains(patch, "\n# ") {
			t.Errorf("remarks in %s", patch)
		}
		if patch != "" {
			apply(t, dir, patch)
		}
		if seed%2 == 1 {
			w.mount()
		}
		now := files(t, w.spec.Target)
		for _, line := range got {
			if name, ok := strings.CutPrefix(line, "! "); ok {
				delete(now, name)
			}
		}
		applied := files(t, dir)
		for name, text := range now {
			if applied[name] != text {
				t.Errorf("seed %d: %q is %.40q after the patch, want %.40q", seed, name, applied[name], text)
			}
			delete(applied, name)
		}
		if len(applied) > 0 {
			t.Errorf("seed %d: the patch leaves %q", seed, applied)
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// gitSays returns what git says about a copy of the workspace.
func gitSays(w *world) (list []string) {
	w.t.Helper()
	dir := filepath.Join(w.root, "copy")
	mounted := w.source().After.Root
	must(w.t, os.RemoveAll(dir))
	cp := exec.Command("cp", "-a", "/proc/self/fd/3/.", dir)
	cp.ExtraFiles = []*os.File{mounted}
	if out, err := cp.CombinedOutput(); err != nil {
		w.t.Fatalf("cp: %v: %s", err, out)
	}
	must(w.t, os.RemoveAll(filepath.Join(dir, ".git")))
	index := filepath.Join(w.root, "copied.git") // git writes the index
	must(w.t, os.RemoveAll(index), os.CopyFS(index, os.DirFS(w.git)))
	git := func(args ...string) (records []string) {
		out, err := testgit.Command(dir, append([]string{"--git-dir=" + index, "--work-tree=" + dir}, args...)...).Output()
		must(w.t, err)
		return strings.FieldsFunc(string(out), func(c rune) bool { return c == 0 })
	}
	changed := git("diff", "--no-renames", "--name-status", "-z", "HEAD")
	for i := 0; i+1 < len(changed); i += 2 {
		letter := strings.Replace(changed[i], "T", "M", 1)
		list = append(list, letter+" "+changed[i+1])
	}
	for _, name := range git("ls-files", "-z", "--others", "--exclude-standard") {
		list = append(list, "A "+name)
	}
	for _, name := range git("ls-files", "-z", "--others", "--ignored", "--exclude-standard") {
		list = append(list, "! "+name)
	}
	return list
}

// apply applies a patch as a user would.
func apply(t *testing.T, dir, patch string) {
	t.Helper()
	cmd := testgit.Command(dir, "apply", "--whitespace=nowarn")
	cmd.Stdin = strings.NewReader(patch)
	if out, err := testgit.Run(cmd); err != nil {
		t.Fatalf("git apply: %v: %s\n%s", err, out, patch)
	}
}
