package workspace

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/volume"
	"github.com/helmdeck/repos/tests/testdir"
	"github.com/helmdeck/repos/tests/testgit"
	"github.com/helmdeck/repos/tests/wait"
)

// put writes a file below dir, and makes its directories.
func put(t *testing.T, dir, rel, data string) {
	t.Helper()
	path := filepath.Join(dir, rel)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(data), 0o644); err != nil {
		t.Fatal(err)
	}
}

// wantFile checks the content of a file. If want is empty, the file may be missing.
func wantFile(t *testing.T, dir, rel, want string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, rel))
	if err != nil && (want != "" || !os.IsNotExist(err)) || string(data) != want {
		t.Errorf("%s: %q, %v; want %q", rel, data, err, want)
	}
}

// end releases the last lease of a workspace, and waits until its reaper is done.
func (w *world) end(name, id string) {
	w.t.Helper()
	w.release(name, id)
	reaped(w.t, w)
}

// TestWarm: the next workspace has what a workspace left at a warm path. git takes it for
// untracked files, and it leaves no checkpoint.
func TestWarm(t *testing.T) {
	t.Parallel()
	w := newCheckpointWorld(t)
	options := []string{"warm", "node_modules,web/dist"}
	_, dir := w.open("v", "1", options...)
	put(t, dir, "node_modules/a/index.js", "1")
	put(t, dir, "web/dist/x", "1")
	w.end("v", "1")

	rec, dir := w.open("v", "2", options...) // waits for the first one's end
	wantFile(t, dir, "node_modules/a/index.js", "1")
	wantFile(t, dir, "web/dist/x", "1")
	if got := testgit.GitAny(t, dir, "status", "--porcelain"); got != "?? web/" {
		t.Errorf("status %q", got)
	}
	if !rec.Metacopy || len(rec.Warm) != 3 || len(rec.Warm[0].Chain) != 1 || rec.Warm[0].LeftOut != "" {
		t.Errorf("record %+v", rec)
	}
	for _, path := range []string{"node_modules/a/index.js", "web/dist/x"} {
		if err := os.Remove(filepath.Join(dir, path)); err != nil {
			t.Fatal(err)
		}
	}
	put(t, dir, "node_modules/b/index.js", "2")
	w.end("v", "2")

	_, dir = w.open("v", "3", options...)
	wantFile(t, dir, "node_modules/a/index.js", "")
	wantFile(t, dir, "node_modules/b/index.js", "2")
	wantFile(t, dir, "web/dist/x", "")
	w.end("v", "3")
	if got := w.m.Checkpoints(); len(got) != 0 {
		t.Errorf("checkpoints %+v", got)
	}
	if got := w.workspaces(); len(got) != 0 {
		t.Errorf("workspaces %q", got)
	}
	stray := filepath.Join(w.root, "clones", rec.Clone, "warm", ".tmp-stray")
	if err := os.Mkdir(stray, 0o755); err != nil {
		t.Fatal(err)
	}
	w.restart()
	if _, err := os.Lstat(stray); !os.IsNotExist(err) {
		t.Errorf("what a killed promotion left is there: %v", err)
	}
	_, dir = w.open("v", "4", options...)
	wantFile(t, dir, "node_modules/b/index.js", "2")
	_, other := w.open("v", "5", append(options, "warm_key", "k")...)
	wantFile(t, other, "node_modules/b/index.js", "")
	_, other = w.open("v", "6")
	wantFile(t, other, "node_modules/b/index.js", "")
}

// TestWarmDirectories: in a workspace with warm paths a directory can be renamed, and the
// files of a uid other than root stay its own.
func TestWarmDirectories(t *testing.T) {
	t.Parallel()
	w := newCheckpointWorld(t)
	_, dir := w.open("v", "1", "warm", "nm", "uid", "1234", "gid", "1234")
	files := strings.Fields(testgit.GitAny(t, dir, "ls-files"))
	var top string
	for _, f := range files {
		if d, _, ok := strings.Cut(f, "/"); ok {
			top = d
		}
	}
	if top == "" {
		t.Fatalf("no directory in %q", files)
	}
	if err := os.Rename(filepath.Join(dir, top), filepath.Join(dir, "moved")); err != nil {
		t.Error(err)
	}
	put(t, dir, "nm/x", "x")
	for _, name := range []string{"nm", "nm/x"} {
		if err := os.Chown(filepath.Join(dir, name), 1234, 1234); err != nil {
			t.Fatal(err)
		}
	}
	w.end("v", "1")
	_, dir = w.open("v", "2", "warm", "nm", "uid", "1234", "gid", "1234")
	for _, name := range []string{"", "nm", "nm/x"} {
		if uid, gid := testdir.Owner(t, filepath.Join(dir, name)); uid != 1234 || gid != 1234 {
			t.Errorf("%q belongs to %d:%d", name, uid, gid)
		}
	}
	// A directory that the commit has is not warm.
	rec, _ := w.open("v", "3", "warm", top)
	if len(rec.Warm) != 2 || rec.Warm[0].LeftOut == "" {
		t.Errorf("record %+v", rec.Warm)
	}
}

// TestWarmKept: kept workspaces and checkpoints keep the warm layers that they began with, and
// their own changes.
func TestWarmKept(t *testing.T) {
	t.Parallel()
	w := newCheckpointWorld(t)
	_, dir := w.open("v", "1", "warm", "nm")
	put(t, dir, "nm/x", "1")
	w.end("v", "1")
	// A kept workspace holds its warm layers, and does not promote.
	kept, dir := w.open("k", "1", "warm", "nm", "mode", "keep")
	put(t, dir, "nm/y", "kept")
	w.end("k", "1")
	_, dir = w.open("v", "2", "warm", "nm")
	if err := os.RemoveAll(filepath.Join(dir, "nm")); err != nil {
		t.Fatal(err)
	}
	w.end("v", "2")
	_, dir = w.open("v", "3", "warm", "nm")
	wantFile(t, dir, "nm/x", "")
	put(t, dir, "nm/z", "3")
	w.end("v", "3")
	if _, ok, err := w.m.Join(t.Context(), Lease{"k", "2"}); !ok || err != nil {
		t.Fatal(ok, err)
	}
	wantFile(t, w.m.Mountpoint(kept), "nm/x", "1")
	wantFile(t, w.m.Mountpoint(kept), "nm/y", "kept")
	w.release("k", "2")
	// Its checkpoint has all of it.
	if err := w.m.End(t.Context(), "k", func(*meta.Tx) error { return nil }); err != nil {
		t.Fatal(err)
	}
	reaped(t, w)
	checkpoints := w.m.Checkpoints()
	if len(checkpoints) != 1 || checkpoints[0].ID != kept.ID {
		t.Fatalf("checkpoints %+v", checkpoints)
	}
	_, dir = w.forked(kept.ID, "r", "1")
	wantFile(t, dir, "nm/x", "1")
	wantFile(t, dir, "nm/y", "kept")
	put(t, dir, "nm/z", "forked")
	w.end("r", "1") // which carries nothing over: it has the checkpoint's files too
	_, dir = w.open("v", "4", "warm", "nm")
	wantFile(t, dir, "nm/z", "3")
	wantFile(t, dir, "nm/y", "")
}

// TestUnpromotedInCheckpoint: a checkpoint has what its workspace left at warm paths, unless others got that. Changes there
// alone make no checkpoint.
func TestUnpromotedInCheckpoint(t *testing.T) {
	t.Parallel()
	w := newCheckpointWorld(t)
	write := func(dir, text string) {
		put(t, dir, "nm/x", text)
		put(t, dir, "gen/a/b/"+text, text)
	}
	remove := func(dir, _ string) {
		for _, name := range []string{"nm", "gen"} {
			if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	again := func(dir, text string) { remove(dir, ""); write(dir, text) }
	for _, publish := range []string{"never", "marked", "overtaken", "always"} {
		for what, change := range map[string]func(dir, text string){"write": write, "remove": remove, "again": again} {
			for _, mine := range []string{"", "mine"} {
				name := publish + what + mine
				shared := []string{"warm", "nm,gen/a/b", "warm_key", name}
				_, dir := w.open("base", "1", shared...)
				write(dir, "base")
				w.end("base", "1")
				options := slices.Clone(shared)
				if publish != "overtaken" {
					options = append(options, "publish", publish)
				}
				rec, dir := w.open(name, "1", options...)
				wantFile(t, dir, "nm/x", "base")
				change(dir, "new")
				if mine != "" {
					put(t, dir, mine, mine)
				}
				if publish == "overtaken" {
					_, other := w.open("other", "1", shared...)
					write(other, "overtakes")
					w.end("other", "1")
				}
				w.end(name, "1")
				if _, err := w.m.Checkpoint(rec.ID, volume.DefaultSubject); (err == nil) != (mine != "") {
					t.Errorf("%s: the checkpoint: %v", name, err)
				}
				if mine == "" {
					continue
				}
				want := map[string]string{"write": "new base new", "remove": "  ", "again": "new  new"}[what]
				if publish == "always" {
					want = "base base " // as it began
				}
				_, dir = w.forked(rec.ID, name+"-fork", "1")
				got := content(t, filepath.Join(dir, "nm/x")) + " " + content(t, filepath.Join(dir, "gen/a/b/base")) + " " + content(t, filepath.Join(dir, "gen/a/b/new"))
				if got != want {
					t.Errorf("%s: the checkpoint has %q, want %q", name, got, want)
				}
				wantFile(t, dir, mine, mine)
			}
		}
	}
}

// TestContainerOutlivesLeaseOfWarmWorkspace: a container that outlives its lease delays no Mount. Its warm paths are
// promoted when it has ended, unless another workspace moved the head meanwhile. Not
// parallel: the holder would keep the workspaces of other tests busy.
func TestContainerOutlivesLeaseOfWarmWorkspace(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	for _, overtaken := range []bool{false, true} {
		w := newCheckpointWorld(t)
		rec, dir := w.open("v", "1", "warm", "nm")
		put(t, dir, "nm/x", "outlived")
		h := hold(t, w.root, dir)
		w.release("v", "1")
		other, dir := w.open("v", "2", "warm", "nm")
		wantFile(t, dir, "nm/x", "")
		if overtaken {
			put(t, dir, "nm/y", "overtook")
		}
		w.release("v", "2")
		wait.For(t, "the other one to go", func() error {
			_, err := os.Lstat(w.m.mounter.Dir(other))
			return wait.Check(os.IsNotExist(err), "it is there, %v", err)
		})
		wantFile(t, w.m.mounter.Upper(rec), "nm/x", "outlived")
		h.end()
		reaped(t, w)
		_, dir = w.open("v", "3", "warm", "nm")
		if overtaken {
			wantFile(t, dir, "nm/x", "")
			wantFile(t, dir, "nm/y", "overtook")
		} else {
			wantFile(t, dir, "nm/x", "outlived")
		}
	}
}
