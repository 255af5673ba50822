package workspace

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"syscall"
	"testing"

	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/overlay"
	"github.com/helmdeck/repos/tests/testdir"
	"github.com/helmdeck/repos/tests/testgit"
	"github.com/helmdeck/repos/tests/wait"
)

func TestOpen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rec, dir := w.open("v", "1", "ref", "main", "uid", "1234", "gid", "2345")
	data, err := os.ReadFile(filepath.Join(dir, ".git/helmdeck.json"))
	if err != nil {
		t.Fatal(err)
	}
	var got about
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	head := testgit.GitAny(t, dir, "rev-parse", "HEAD")
	want := about{Volume: "v", Workspace: rec.ID, Subject: "default", Repo: w.server.URL("r"), Ref: "refs/heads/main", Commit: head, Pulled: head, Time: rec.MountedAt.UTC().Round(0)}
	if !got.Time.Equal(want.Time) {
		t.Errorf("time %v, want %v", got.Time, want.Time)
	}
	if got.Time = want.Time; !reflect.DeepEqual(got, want) {
		t.Errorf("helmdeck.json\n got %+v\nwant %+v", got, want)
	}
	for _, name := range []string{".", ".git", ".git/helmdeck.json", ".git/hdcache", "README.md"} {
		if uid, gid := testdir.Owner(t, filepath.Join(dir, name)); uid != 1234 || gid != 2345 {
			t.Errorf("%s belongs to %d:%d", name, uid, gid)
		}
	}
	if got := testgit.GitAny(t, dir, "status", "--porcelain"); got != "" {
		t.Errorf("status %q", got)
	}
	points, err := overlay.Mounts(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(points) != 1 || points[0].Source != "helmdeck-repos" {
		t.Errorf("mounts %+v, want the overlay", points)
	}
	for _, p := range points {
		var st syscall.Statfs_t
		if err := syscall.Statfs(p.Path, &st); err != nil {
			t.Fatal(err)
		}
		const nosuid, nodev = 2, 4 // ST_ of statfs(2)
		if st.Flags&nosuid == 0 || st.Flags&nodev == 0 {
			t.Errorf("%s has flags %x, want nosuid and nodev", p.Path, st.Flags)
		}
	}
}

func TestCacheOptions(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		change  gitserver.Change
		options []string
		link    bool // .hdcache shows the cache
		mounted bool
	}{
		{"by default", gitserver.Change{Path: "x"}, nil, false, true},
		{"link", gitserver.Change{Path: "x"}, []string{"cache_link", "true"}, true, true},
		{"off", gitserver.Change{Path: "x"}, []string{"cache", "off", "cache_link", "true"}, false, false},
		{"tracked file", gitserver.Change{Path: ".hdcache", Content: "x"}, []string{"cache_link", "true"}, false, true},
		{"tracked directory", gitserver.Change{Path: ".hdcache/x", Content: "x"}, []string{"cache_link", "true"}, false, true},
		{"tracked symlink", gitserver.Change{Path: ".hdcache", Mode: "120000", Content: "/etc"}, []string{"cache_link", "true"}, false, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			if _, err := gitserver.Commit(w.server.Path("r"), "main", tt.change); err != nil {
				t.Fatal(err)
			}
			_, dir := w.open("v", "1", tt.options...)
			target, _ := os.Readlink(filepath.Join(dir, ".hdcache"))
			if got := target == ".git/hdcache"; got != tt.link {
				t.Errorf("link %q", target)
			}
			if _, err := os.Stat(filepath.Join(dir, ".git/hdcache/go-mod")); (err == nil) != tt.mounted {
				t.Errorf(".git/hdcache/go-mod: %v", err)
			}
			if got := testgit.GitAny(t, dir, "status", "--porcelain"); got != "" {
				t.Errorf("status %q", got)
			}
		})
	}
}

func TestLeasesAreSets(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if _, ok, err := w.m.Lookup(t.Context(), Lease{"v", "1"}); ok || err != nil {
		t.Errorf("Lookup of an unknown lease: %v, %v", ok, err)
	}
	w.release("v", "1") // of an unknown lease
	rec, dir := w.open("v", "1")
	other, otherDir := w.open("v", "2")
	if rec.ID == other.ID || dir == otherDir {
		t.Fatal("two leases share a workspace")
	}
	if _, ok, err := w.m.Lookup(t.Context(), Lease{"other", "1"}); ok || err != nil {
		t.Errorf("Lookup for another volume: %v, %v", ok, err)
	}
	again, ok, err := w.m.Lookup(t.Context(), Lease{"v", "1"})
	if err != nil || !ok || again.ID != rec.ID || !slices.Equal(again.Leases, meta.Leases{"1"}) {
		t.Fatalf("Lookup: %+v, %v, %v", again, ok, err)
	}
	w.copy("1")
	w.release("v", "1")
	w.release("v", "1") // it is released already
	w.release("v", "unknown")
	w.release("other", "1")
	ids := func() (list []string) {
		for _, l := range w.m.Leases("v") {
			list = append(list, l.ID)
		}
		return list
	}
	if got := ids(); !slices.Equal(got, []string{rec.ID, other.ID}) {
		t.Errorf("leased: %q, want both, oldest first", got)
	}
	if _, err := os.Stat(filepath.Join(dir, "README.md")); err != nil {
		t.Errorf("after the first of two releases: %v", err)
	}
	w.release("v", "1#2")
	if got := ids(); !slices.Equal(got, []string{other.ID}) {
		t.Errorf("leased: %q, want the other one", got)
	}
	if got := entries(t, filepath.Dir(w.m.mounter.Dir(other))); !slices.Contains(got, other.ID) {
		t.Errorf("workspaces %q", got)
	}
	if points, err := testdir.Mounts(w.root); err != nil || len(points) != 1 {
		t.Errorf("mounts %v, %v; want those of the other one", points, err)
	}
}

// TestReset: a workspace has nothing of the volume's workspace before.
func TestReset(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, dir := w.open("v", "1")
	for _, do := range []func() error{
		func() error { return os.WriteFile(filepath.Join(dir, "new"), []byte("x"), 0o644) },
		func() error { return os.Remove(filepath.Join(dir, "README.md")) },
		func() error { return os.RemoveAll(filepath.Join(dir, "src")) },
		func() error { return os.RemoveAll(filepath.Join(dir, ".git/objects")) },
		func() error {
			return os.WriteFile(filepath.Join(dir, ".git/config"), []byte("[core]\nfsmonitor=/bin/false\n"), 0o644)
		},
		func() error { return syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o600) },
		func() error { return os.Mkdir(filepath.Join(dir, "closed"), 0) },
		func() error { return os.RemoveAll(filepath.Join(dir, ".git/hdcache")) },
	} {
		if err := do(); err != nil {
			t.Fatal(err)
		}
	}
	w.release("v", "1")
	_, dir = w.open("v", "2")
	if got := testgit.GitAny(t, dir, "status", "--porcelain"); got != "" {
		t.Errorf("status %q", got)
	}
	testgit.GitAny(t, dir, "fsck", "--strict")
	if _, err := os.Stat(filepath.Join(dir, ".git/hdcache/go-mod")); err != nil {
		t.Error(err)
	}
	w.release("v", "2")
	reaped(t, w)
	if got := w.workspaces(); len(got) > 0 {
		t.Errorf("left: %q", got)
	}
	if got := w.records(); len(got) > 0 {
		t.Errorf("records left: %+v", got)
	}
}

// reaped waits until every ended workspace is removed, or a checkpoint.
func reaped(t *testing.T, w *world) {
	t.Helper()
	wait.For(t, "every ended workspace to go", func() error {
		return wait.Check(!slices.ContainsFunc(w.m.Workspaces(), func(rec meta.Workspace) bool { return rec.Phase == meta.Ended }), "%+v", w.m.Workspaces())
	})
}

func TestFailedOpenLeavesNothing(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		damage func(t *testing.T, w *world, r *Request)
	}{
		{"a layer is missing", func(t *testing.T, w *world, r *Request) {
			r.Checkout.Tree.Chain = append(slices.Clone(r.Checkout.Tree.Chain), "missing")
		}},
		{"the record can't be written", func(t *testing.T, w *world, r *Request) {
			if err := w.db.Close(); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			r := w.request("v", "1")
			tt.damage(t, w, &r)
			if _, err := w.m.Open(t.Context(), r); err == nil {
				t.Fatal("Open succeeded")
			}
			r.Checkout.Release()
			if got := w.workspaces(); len(got) > 0 {
				t.Errorf("left: %q", got)
			}
			if points, err := testdir.Mounts(w.root); err != nil || len(points) > 0 {
				t.Errorf("mounts left: %v, %v", points, err)
			}
			if got := w.m.Leases("v"); len(got) > 0 || len(w.m.records.all) > 0 {
				t.Errorf("leases left: %+v, %+v", got, w.m.records.all)
			}
			if got := w.records(); len(got) > 0 {
				t.Errorf("records left: %+v", got)
			}
		})
	}
}

// holder is a process in a mount namespace of its own: a container that has
// copies of our mounts.
type holder struct {
	cmd *exec.Cmd
	end func()
}

func hold(t *testing.T, root, dir string) holder {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Dir = dir
	cmd.Env = []string{"HELMDECK_TEST_HOLDER=" + root}
	// Private, as a container's mounts are: an unmount here does not reach them.
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "holding <nil>\n" {
		t.Fatalf("%q, %v", line, err)
	}
	h := holder{cmd, func() { in.Close(); cmd.Wait() }}
	t.Cleanup(h.end)
	return h
}

// TestBusyUpperIsKept: while a container uses an ended workspace, its upper and its layers
// stay, through restarts. They are removed when the container ends. Not parallel: the
// holder would keep the workspaces of other tests busy.
func TestBusyUpperIsKept(t *testing.T) {
	for _, vanished := range []bool{false, true} {
		w := newWorld(t)
		rec, dir := w.open("v", "1")
		upper := w.m.mounter.Upper(rec)
		if err := os.WriteFile(filepath.Join(dir, "mine"), []byte("x"), 0o644); err != nil {
			t.Fatal(err)
		}
		h := hold(t, w.root, dir)
		if vanished { // the plugin was disabled by force, or the engine was killed
			w.close()
			testdir.Unmount(t, w.root)
			w.restart()
		} else {
			w.release("v", "1")
		}
		if got := w.m.Leases("v"); len(got) > 0 {
			t.Errorf("leased: %+v", got)
		}
		w.release("v", "1")
		for range 2 {
			if busy, err := w.m.mounter.Busy(rec); err != nil || !busy {
				t.Fatalf("busy: %v, %v", busy, err)
			}
			// Another commit, so that only the holder needs the layers.
			if _, err := gitserver.Commit(w.server.Path("r"), "main", gitserver.Change{Path: "x", Content: rec.ID}); err != nil {
				t.Fatal(err)
			}
			w.open("v", "2"+rec.ID, "refresh", "always")
			w.release("v", "2"+rec.ID)
			w.restart()
			for _, path := range []string{
				filepath.Join(upper, "mine"), filepath.Join(w.root, "clones", rec.Clone, "trees", rec.Tree, "README.md"),
				filepath.Join(w.root, "clones", rec.Clone, "refs", rec.GitLayer, "git/.git/config"),
			} {
				if _, err := os.Stat(path); err != nil {
					t.Errorf("vanished %v: %v", vanished, err)
				}
			}
			data, err := os.ReadFile(fmt.Sprintf("/proc/%d/cwd/mine", h.cmd.Process.Pid))
			if err != nil || string(data) != "x" {
				t.Errorf("vanished %v: the holder has %q, %v", vanished, data, err)
			}
		}
		h.end()
		reaped(t, w)
		if got := w.workspaces(); len(got) > 0 {
			t.Errorf("vanished %v: left %q", vanished, got)
		}
		if _, ok := w.records()[rec.ID]; ok {
			t.Errorf("vanished %v: its record is left", vanished)
		}
	}
}

// TestRestart: leases survive while their mounts are there.
func TestRestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rec, dir := w.open("v", "1")
	w.copy("1")
	if err := os.WriteFile(filepath.Join(dir, "mine"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	w.restart()
	leases := w.m.Leases("v")
	if len(leases) != 1 || leases[0].ID != rec.ID || !slices.Equal(leases[0].Leases, meta.Leases{"1", "1#2"}) {
		t.Fatalf("leases after a restart: %+v", leases)
	}
	w.release("v", "1#2")
	if data, err := os.ReadFile(filepath.Join(dir, "mine")); err != nil || string(data) != "x" {
		t.Errorf("%q, %v", data, err)
	}
	w.release("v", "1")
	if points, err := testdir.Mounts(w.root); err != nil || len(points) > 0 {
		t.Errorf("mounts left: %v, %v", points, err)
	}
	reaped(t, w)
	if got := w.workspaces(); len(got) > 0 {
		t.Errorf("left: %q", got)
	}
}

// TestSweepWithoutRecords: the sweep removes directories of workspaces whose Open never
// answered, mounted or not.
func TestSweepWithoutRecords(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rec, _ := w.open("v", "1")
	bare := filepath.Join(w.root, "clones", rec.Clone, "workspaces", "0123456789abcdef")
	if err := os.MkdirAll(filepath.Join(bare, "upper/x"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := w.db.Update(func(tx *meta.Tx) error { return tx.DeleteWorkspace(rec.ID) }); err != nil {
		t.Fatal(err)
	}
	w.restart()
	reaped(t, w)
	if got := w.workspaces(); len(got) > 0 {
		t.Errorf("left: %q", got)
	}
	if points, err := testdir.Mounts(w.root); err != nil || len(points) > 0 {
		t.Errorf("mounts left: %v, %v", points, err)
	}
}
