package look

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/helmdeck/repos/internal/changes"
	"github.com/helmdeck/repos/internal/checkout"
	"github.com/helmdeck/repos/internal/clone"
	"github.com/helmdeck/repos/internal/gitserver"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/quarantine"
	"github.com/helmdeck/repos/internal/remote"
	"github.com/helmdeck/repos/internal/volume"
	"github.com/helmdeck/repos/internal/workspace"
	"github.com/helmdeck/repos/tests/testclone"
	"github.com/helmdeck/repos/tests/testdir"
	"github.com/helmdeck/repos/tests/testgit"
)

func TestMain(m *testing.M) {
	checkout.ServeJob()
	os.Exit(m.Run())
}

// world has a data directory with a workspace that the volume "v" keeps.
type world struct {
	*Inspector
	t      *testing.T
	m      *workspace.Manager
	rec    meta.Workspace
	dir    string // where the workspace is mounted
	viewer *Viewer
}

func newWorld(t *testing.T) *world {
	t.Helper()
	server := testgit.Remote(t, "r", gitserver.Spec{Seed: 1, Files: 10, Commits: 3, Changes: 2})
	root := filepath.Join(testdir.New(t, "look"), "data")
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	d := testclone.Open(t, root, "boot", 64125)
	m, err := workspace.NewManager(workspace.Config{
		Root: root, DB: d.DB, Trash: d.Trash, Clones: d.Clones, Warm: d.Warm, Work: d.Work, Features: testdir.Features(t), Log: d.Log, Now: time.Now, DiscardTTL: time.Hour,
	}, d.State)
	if err != nil {
		t.Fatal(err)
	}
	q, err := quarantine.Open(d.Git, testdir.New(t, "quarantine"), 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	o, err := volume.Parse(map[string]string{"repo": server.URL("r"), "mode": "keep"}, nil, volume.AllSchemes())
	if err != nil {
		t.Fatal(err)
	}
	c := d.Clones.Get(o.Subject, o.Repo)
	co, err := c.Prepare(t.Context(), clone.Spec{Source: remote.Source{URL: o.Repo, Ref: o.Ref, Refresh: o.Refresh}, UID: o.UID, GID: o.GID}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.DB.Update(func(tx *meta.Tx) error { return tx.PutVolume(meta.Volume{Name: "v", Options: o.Map()}) }); err != nil {
		t.Fatal(err)
	}
	rec, err := m.Open(t.Context(), workspace.Request{Lease: workspace.Lease{Volume: "v", ID: "1"}, Options: o, Clone: c, Checkout: co})
	if err != nil {
		t.Fatal(err)
	}
	v := NewViewer(m)
	return &world{NewInspector(v, &changes.Reader{Git: d.Git, Dir: testdir.New(t, "changes")}, q), t, m, rec, m.Mountpoint(rec), v}
}

// git runs git in the workspace, as a container does.
func (w *world) git(args ...string) string {
	w.t.Helper()
	return testgit.Git(w.t, w.dir, append([]string{"-c", "safe.directory=*"}, args...)...)
}

func (w *world) status() Status {
	w.t.Helper()
	s, err := w.Status(w.t.Context(), w.rec.ID)
	if err != nil {
		w.t.Fatal(err)
	}
	if s.HeadError+s.AheadError != "" || s.Ahead == nil {
		w.t.Fatalf("HEAD: %s, ahead: %s, %v", s.HeadError, s.AheadError, s.Ahead)
	}
	return s
}

// descriptors returns how many files this process has open.
func descriptors(t *testing.T) int {
	t.Helper()
	return len(testdir.Names(t, "/proc/self/fd"))
}

// TestPhases: a workspace is the same to who looks at it while it is mounted, while it is parked, and
// as a discard, and a look leaves neither a mount nor a descriptor.
func TestPhases(t *testing.T) {
	w := newWorld(t)
	if s := w.status(); *s.Ahead != 0 || s.Head.Name != "main" || s.Head.ID != w.rec.Commit || len(s.List) != 0 {
		t.Errorf("at first: %+v, %d ahead, changes %v", s.Head, *s.Ahead, s.List)
	}
	if err := os.WriteFile(filepath.Join(w.dir, "committed"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	w.git("add", "committed")
	w.git("commit", "-qm", "work")
	head := w.git("rev-parse", "HEAD")
	if err := os.Remove(filepath.Join(w.dir, "README.md")); err != nil {
		t.Fatal(err)
	}
	check := func(phase meta.Phase) {
		t.Helper()
		open := descriptors(t)
		s := w.status()
		if s.Record.Phase != phase || *s.Ahead != 1 || s.Head.Name != "main" || s.Head.ID != head || s.Added != 1 || s.Deleted != 1 || len(s.List) != 2 {
			t.Errorf("%s: %s, %+v, %d ahead, changes %v", phase, s.Record.Phase, s.Head, *s.Ahead, s.List)
		}
		v, err := w.viewer.Open(t.Context(), w.rec.ID)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(v.Close(), v.Close()); err != nil {
			t.Error(err)
		}
		testdir.Eventually(t, "the descriptors to be closed", func() bool { return descriptors(t) <= open })
	}
	check(meta.Mounted)
	if _, err := w.m.Release(t.Context(), workspace.Lease{Volume: "v", ID: "1"}); err != nil {
		t.Fatal(err)
	}
	testdir.Eventually(t, "the workspace to be parked", func() bool { return w.m.ParkUnused(t.Context(), w.rec.Clone) == nil })
	check(meta.Parked)
	if mounts, err := testdir.Mounts(w.dir); err != nil || len(mounts) != 0 {
		t.Errorf("mounted: %v, %v", mounts, err)
	}
	if err := w.m.End(t.Context(), "v", func(tx *meta.Tx) error { return tx.DeleteVolume("v") }); err != nil {
		t.Fatal(err)
	}
	testdir.Eventually(t, "the discard", func() bool { return len(w.m.Discards()) == 1 })
	check(meta.Discarded)
	if _, err := w.viewer.Open(t.Context(), "none"); !errors.As(err, new(*workspace.NoWorkspaceError)) {
		t.Errorf("an unknown one: %v", err)
	}
}

// TestHead: the commits ahead are those of HEAD, wherever it is.
func TestHead(t *testing.T) {
	w := newWorld(t)
	w.git("commit", "-q", "--allow-empty", "-m", "one")
	w.git("commit", "-q", "--allow-empty", "-m", "two")
	head := w.git("rev-parse", "HEAD")
	for _, tt := range []struct {
		name         string
		git          []string
		branch, head string
		ahead        int64
	}{
		{"a branch of its own", []string{"checkout", "-q", "-b", "mine"}, "mine", head, 2},
		{"detached", []string{"checkout", "-q", "--detach", "HEAD~1"}, "", w.git("rev-parse", "HEAD~1"), 1},
		{"detached before the commit of the volume", []string{"checkout", "-q", "--detach", w.rec.Commit + "~1"}, "", w.git("rev-parse", w.rec.Commit+"~1"), 0},
		{"packed", []string{"checkout", "-q", "main"}, "main", head, 2},
		{"a branch that was deleted", []string{"update-ref", "-d", "refs/heads/main"}, "main", "", 0},
	} {
		w.git(tt.git...)
		if tt.name == "packed" {
			w.git("gc", "-q")
		}
		if s := w.status(); s.Head.Name != tt.branch || s.Head.ID != tt.head || *s.Ahead != tt.ahead {
			t.Errorf("%s: %+v, %d ahead, want %q at %q, %d ahead", tt.name, s.Head, *s.Ahead, tt.branch, tt.head, tt.ahead)
		}
	}
	if err := os.WriteFile(filepath.Join(w.dir, ".git/HEAD"), []byte("ref: refs/remotes/x\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	s, err := w.Status(t.Context(), w.rec.ID)
	if err != nil || s.HeadError == "" || s.Ahead != nil {
		t.Errorf("HEAD that is no branch: %q, %v, %v", s.HeadError, s.Ahead, err)
	}
}
