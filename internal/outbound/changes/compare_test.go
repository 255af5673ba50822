package changes

import (
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/tests/testdir"
	"github.com/helmdeck/repos/tests/testgit"
)

// standOn makes a workspace begin again, on checkpoints.
func (w *world) standOn(checkpoints ...string) {
	w.t.Helper()
	w.park()
	for _, dir := range []string{w.spec.Upper, w.spec.Work} {
		must(w.t, os.RemoveAll(dir), os.Mkdir(dir, 0o755))
	}
	w.on, w.spec.Lower = checkpoints, append(checkpoints, w.spec.Lower...)
	w.mount()
}

// stack returns the layers with the files of the repository, topmost first.
func (w *world) stack() []string {
	return append(append([]string{w.spec.Upper}, w.on...), w.spec.Lower[len(w.on)+1:]...)
}

// between returns two workspaces to be compared.
func between(a, b *world) Source {
	return Source{Before: a.source().After, After: b.source().After, Dirs: Unshared(a.stack(), b.stack())}
}

// copied copies the files of a workspace to a directory.
func (w *world) copied() string {
	w.t.Helper()
	dir := filepath.Join(testdir.NewIn(w.t, w.root, "copied"), "dir")
	cp := exec.Command("cp", "-a", "/proc/self/fd/3/.", dir)
	cp.ExtraFiles = []*os.File{w.source().After.Root}
	if out, err := cp.CombinedOutput(); err != nil {
		w.t.Fatalf("cp: %v: %s", err, out)
	}
	must(w.t, os.RemoveAll(filepath.Join(dir, ".git")))
	return dir
}

// ignored returns the files that a work tree has and its checkout has not, and that a .gitignore names.
func ignored(t *testing.T, dir string, checkout map[string]string) map[string]bool {
	t.Helper()
	testgit.Git(t, dir, "init", "-q", ".")
	defer func() { must(t, os.RemoveAll(filepath.Join(dir, ".git"))) }()
	list := make(map[string]bool)
	for name := range files(t, dir) {
		if _, tracked := checkout[name]; !tracked {
			list[name] = testgit.Command(dir, "check-ignore", "-q", "--no-index", "./"+name).Run() == nil
		}
	}
	return list
}

// TestBetween compares workspaces with random changes: two of one commit, two of different commits, and two that stand
// on one checkpoint. The patch makes the files of the second out of those of the first.
func TestBetween(t *testing.T) {
	t.Parallel()
	other := testdir.New(t, "commit")
	makeCommit(t, other, func(dir string) {
		sample(t, dir)
		must(t, os.RemoveAll(filepath.Join(dir, "src")), os.Remove(filepath.Join(dir, "README")))
		for name, text := range map[string]string{"src": "a file\n", "README/x": "a directory\n", "a": "tracked\n", ".gitignore": "h.o\n", "big": "small"} {
			writeFile(t, filepath.Join(dir, name), text)
		}
	})
	for seed := range uint64(12) {
		a, b := newWorld(t), newWorld(t)
		switch seed % 3 {
		case 1:
			b = newWorldOf(t, other)
		case 2:
			begin := newWorld(t)
			randomly(begin, seed+100, 30)
			begin.park()
			a.standOn(begin.spec.Upper)
			b.standOn(begin.spec.Upper)
		}
		randomly(a, seed+200, 40)
		randomly(b, seed+300, 40)
		if seed%2 == 1 {
			a.park()
		}
		src := between(a, b)
		dirs := [2]string{a.copied(), b.copied()}
		begun := [2]map[string]string{files(t, filepath.Join(filepath.Dir(a.git), "tree")), files(t, filepath.Join(filepath.Dir(b.git), "tree"))}
		trees := [2]map[string]string{files(t, dirs[0]), files(t, dirs[1])}
		hidden := [2]map[string]bool{ignored(t, dirs[0], begun[0]), ignored(t, dirs[1], begun[1])}
		patched := make(map[string]string) // what the patch without ignored files makes of the first
		var expected []string
		for name, text := range trees[0] {
			patched[name] = text
			now, there := trees[1][name]
			ignored := hidden[0][name]
			if _, err := os.Lstat(filepath.Join(dirs[1], name)); !there && ignored && err != nil {
				for dir := filepath.Dir(name); dir != "."; dir = filepath.Dir(dir) { // nothing may be in the way
					info, err := os.Lstat(filepath.Join(dirs[1], dir))
					ignored = ignored && (err != nil || info.IsDir())
				}
			} else if !there && err == nil {
				ignored = false
			}
			switch {
			case there && ignored && hidden[1][name] && now != text, !there && ignored:
				expected = append(expected, "! "+name)
			case there && now != text:
				expected, patched[name] = append(expected, "M "+name), now
			case !there:
				expected = append(expected, "D "+name)
				delete(patched, name)
			}
		}
		for name, text := range trees[1] {
			switch _, there := trees[0][name]; {
			case there:
			case hidden[1][name]:
				expected = append(expected, "! "+name)
			default:
				expected, patched[name] = append(expected, "A "+name), text
			}
		}
		set, err := b.reader.Find(t.Context(), src)
		must(t, err)
		want(t, fmt.Sprint("differences of seed ", seed), lines(t, set), expected...)
		set.Close()
		for all, result := range map[bool]map[string]string{true: trees[1], false: patched} {
			dir := a.copied()
			must(t, exec.Command("find", dir, "-mindepth", "1", "-type", "d", "-empty", "-delete").Run()) // git does not know these
			if patch := b.diffOf(src, all); patch != "" {
				apply(t, dir, patch)
			}
			got := files(t, dir)
			for name, text := range result {
				if got[name] != text {
					t.Errorf("seed %d: %q is %.40q after the patch, want %.40q", seed, name, got[name], text)
				}
				delete(got, name)
			}
			if len(got) > 0 {
				t.Errorf("seed %d: the patch leaves %q", seed, got)
			}
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
		b.clean()
	}
}

// TestBetweenEqual: workspaces with the same files do not differ, whatever their layers are.
func TestBetweenEqual(t *testing.T) {
	t.Parallel()
	a, b := newWorld(t), newWorld(t)
	for _, w := range []*world{a, b} {
		w.write("new", "new\n")
		must(t, os.RemoveAll(w.path("src")))
		w.write("src/a.c", "again\n")
	}
	must(t, os.Chtimes(b.path("README"), epoch, epoch))
	if got := b.diffOf(between(a, b), true); got != "" {
		t.Errorf("got %q", got)
	}
}

// TestBetweenHostile: what one of two workspaces has in place of files is left out, and named, on either side.
func TestBetweenHostile(t *testing.T) {
	t.Parallel()
	a, b := newWorld(t), newWorld(t)
	must(t, os.Remove(a.path("README")), unix.Mkfifo(a.path("README"), 0o666)) // a FIFO for a file
	must(t, unix.Mkfifo(a.path("pipe"), 0o666), unix.Mknod(a.path("zero"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 5))))
	b.write("pipe", "a file\n")
	must(t, os.RemoveAll(a.path("src")), os.Symlink("/etc", a.path("src"))) // nothing is read through a link
	must(t, os.RemoveAll(b.path("other")), os.Symlink("/proc/self", b.path("other")))
	must(t, os.WriteFile(b.path("binary"), []byte("a\x00b"), 0o644), os.Truncate(b.path("big"), 1<<40))
	b.write(".git/config", "[core]\n\tfsmonitor = false\n")
	for _, pair := range [][2]*world{{a, b}, {b, a}} {
		patch := b.diffOf(between(pair[0], pair[1]), true)
		contains(t, "the patch", patch, `# left out: "pipe": it is a FIFO`, `# left out: "zero": it is a device`, `# left out: "README": it is a FIFO`, "b/src/a.c",
			`# left out: "big": it has more than`)
		if strings.Contains(patch, "root:") || strings.Contains(patch, "fsmonitor") {
			t.Errorf("the patch has what is not in the work tree: %s", patch)
		}
	}
	b.clean()
}

// TestSumOfHoles: a sparse file of nearly 8 EiB is not read, also after another one.
func TestSumOfHoles(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("/dev/shm", "helmdeck-holes-") // ext4 has no files of that size
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	for name, size := range map[string]int64{"small": 1, "huge": math.MaxInt64} {
		path := filepath.Join(dir, name)
		must(t, os.WriteFile(path, nil, 0o644))
		must(t, os.Truncate(path, size))
	}
	root, err := os.Open(dir)
	must(t, err)
	defer root.Close()
	h := &Hasher{Source: Source{After: Side{Root: root}}}
	_, _, err = h.Entry(t.Context(), "small")
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // so that it ends if it reads
	for range 2 {
		if _, _, err := h.Entry(ctx, "huge"); err != errHashed {
			t.Errorf("got %v, want %v", err, errHashed)
		}
	}
}

// TestModulesAreBounded: the paths of submodules are kept, so there is an end of them.
func TestModulesAreBounded(t *testing.T) {
	t.Parallel()
	dir, path := t.TempDir(), strings.Repeat(strings.Repeat("m", 200)+"/", 5)+"m"
	must(t, os.MkdirAll(filepath.Join(dir, path), 0o755))
	must(t, os.WriteFile(filepath.Join(dir, path, ".git"), nil, 0o644))
	root, err := os.Open(dir)
	must(t, err)
	defer root.Close()
	side := Side{Root: root, Checkout: root}
	f := new(Reader).newFinder(Source{Before: side, After: side})
	f.ctx, f.end = context.WithCancelCause(t.Context())
	for range maxModuleBytes / len(path) {
		f.noteModule(path)
	}
	if err := context.Cause(f.ctx); err != nil {
		t.Errorf("%d submodules: %v", len(f.modules), err)
	}
	f.noteModule(path)
	if err := context.Cause(f.ctx); err != errModules {
		t.Errorf("%d submodules: %v, want %v", len(f.modules), err, errModules)
	}
}
