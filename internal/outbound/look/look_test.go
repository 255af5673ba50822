package look

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/clone"
	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/outbound/changes"
	"github.com/helmdeck/repos/internal/outbound/quarantine"
	"github.com/helmdeck/repos/internal/repo/checkout"
	"github.com/helmdeck/repos/internal/repo/remote"
	"github.com/helmdeck/repos/internal/volume"
	"github.com/helmdeck/repos/internal/work"
	"github.com/helmdeck/repos/internal/workspace"
	"github.com/helmdeck/repos/tests/testclone"
	"github.com/helmdeck/repos/tests/testdir"
	"github.com/helmdeck/repos/tests/testgit"
	"github.com/helmdeck/repos/tests/wait"
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
	clones *clone.Manager
	db     *meta.DB
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return newWorldWith(t, testdir.New(t, "look"), nil)
}

// newWorldWith is newWorld with a directory for all files, and what makes room there.
func newWorldWith(t *testing.T, scratch string, room quarantine.Room) *world {
	t.Helper()
	server := testgit.Remote(t, "r", gitserver.Spec{Seed: 1, Files: 10, Commits: 3, Changes: 2})
	root := filepath.Join(scratch, "data")
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	d := testclone.Open(t, root, "boot", 64125)
	m, err := workspace.NewManager(workspace.Config{
		Root: root, Boot: "boot", DB: d.DB, Trash: d.Trash, Clones: d.Clones, Warm: d.Warm, Work: d.Work, Features: testdir.Features(t), Log: d.Log, Now: time.Now, CheckpointTTL: time.Hour,
	}, d.State)
	if err != nil {
		t.Fatal(err)
	}
	q, err := quarantine.Open(d.Git, filepath.Join(scratch, "quarantine"), 1<<30, room)
	if err != nil {
		t.Fatal(err)
	}
	o, err := volume.Parse(map[string]string{"repo": server.URL("r"), "mode": "keep"}, nil, volume.AllSchemes())
	if err != nil {
		t.Fatal(err)
	}
	c := d.Clones.Get(o.Subject, o.Repo)
	co, err := c.Prepare(t.Context(), clone.Spec{Source: sourceOf(o), UID: o.UID, GID: o.GID})
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
	return &world{NewInspector(v, &changes.Reader{Git: d.Git, Dir: q.Dir}, q, func(context.Context, meta.Workspace) Remote { return Remote{} }), t, m, rec, m.Mountpoint(rec), v, d.Clones, d.DB}
}

// sourceOf returns what a volume with these options begins with.
func sourceOf(o volume.Options) remote.Source {
	return remote.Source{URL: o.Repo, Ref: o.Ref, Refresh: o.Refresh}
}

// git runs git in the workspace, as a container does.
func (w *world) git(args ...string) string {
	w.t.Helper()
	return testgit.Git(w.t, w.dir, append([]string{"-c", "safe.directory=*"}, args...)...)
}

// status returns a status that is closed.
func (w *world) status() *Status {
	w.t.Helper()
	s, err := w.Status(w.t.Context(), w.rec.ID, "")
	if err != nil {
		w.t.Fatal(err)
	}
	s.Close()
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
// as a checkpoint, and a look leaves neither a mount nor a descriptor.
func TestPhases(t *testing.T) {
	w := newWorld(t)
	if s := w.status(); *s.Ahead != 0 || s.Head.Name != "main" || s.Head.ID != w.rec.Commit || s.Added+s.Changed+s.Deleted != 0 {
		t.Errorf("at first: %+v, %d ahead, changes %+v", s.Head, *s.Ahead, s.Set)
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
		if s.Record.Phase != phase || *s.Ahead != 1 || s.Head.Name != "main" || s.Head.ID != head || s.Added != 1 || s.Deleted != 1 || s.Changed != 0 {
			t.Errorf("%s: %s, %+v, %d ahead, changes %+v", phase, s.Record.Phase, s.Head, *s.Ahead, s.Set)
		}
		v, err := w.viewer.Open(t.Context(), w.rec.ID)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(v.Close(), v.Close()); err != nil {
			t.Error(err)
		}
		wait.For(t, "the descriptors to be closed", func() error { n := descriptors(t); return wait.Check(n <= open, "%d, want %d", n, open) })
	}
	check(meta.Mounted)
	if _, err := w.m.Release(t.Context(), workspace.Lease{Volume: "v", ID: "1"}); err != nil {
		t.Fatal(err)
	}
	wait.For(t, "the workspace to be parked", func() error { return w.m.ParkUnused(t.Context(), w.rec.Clone) })
	check(meta.Parked)
	if mounts, err := testdir.Mounts(w.dir); err != nil || len(mounts) != 0 {
		t.Errorf("mounted: %v, %v", mounts, err)
	}
	if err := w.m.End(t.Context(), "v", func(tx *meta.Tx) error { return tx.DeleteVolume("v") }); err != nil {
		t.Fatal(err)
	}
	wait.For(t, "the checkpoint", func() error { return wait.Equal(len(w.m.Checkpoints()), 1) })
	check(meta.Checkpoint)
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
	s, err := w.Status(t.Context(), w.rec.ID, "")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if s.HeadError == "" || s.Ahead != nil {
		t.Errorf("HEAD that is no branch: %q, %v, %v", s.HeadError, s.Ahead, err)
	}
}

// TestInspectionsThatLastGiveWay: inspections of other subjects whose readers never end delay one, and
// do not refuse it; a subject has its own limit, which gives way to some more of its own; and a caller that waits can give up.
func TestInspectionsThatLastGiveWay(t *testing.T) {
	w := newWorld(t)
	take := func(ctx context.Context, subject string) (*work.Slot, error) {
		return w.turns.Acquire(work.WithOwner(ctx, work.Owner{Subject: subject}), work.Fetch, false)
	}
	for i := range turns.Slots {
		if _, err := take(t.Context(), fmt.Sprint("hostile ", i/turns.PerSubject)); err != nil {
			t.Fatal(err)
		}
	}
	if got := w.turns.Load()[work.Fetch].Held; got != turns.Slots {
		t.Fatalf("%d inspections are in progress, want %d", got, turns.Slots)
	}
	w.status()
	for range turns.Again { // granted when those before last
		if _, err := take(t.Context(), "hostile 0"); err != nil {
			t.Fatal(err)
		}
	}
	ctx, hangUp := context.WithCancelCause(t.Context())
	reason := errors.New("the client has hung up")
	hangUp(reason)
	if _, err := take(ctx, "hostile 0"); !errors.Is(err, reason) {
		t.Errorf("a subject at its limit: got %v, want that its caller gave up", err)
	}
	for range turns.PerSubject + turns.Again {
		if _, err := take(t.Context(), string(w.viewer.Subject(w.rec.ID))); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Status(ctx, w.rec.ID, ""); !errors.Is(err, reason) {
		t.Errorf("a status whose caller gave up: got %v", err)
	}
	if got := w.turns.Load()[work.Fetch].Held; got != turns.Slots+turns.PerSubject+2*turns.Again {
		t.Errorf("%d inspections are in progress, want %d", got, turns.Slots+turns.PerSubject+2*turns.Again)
	}
}

// TestStatusTakesAnotherTurn: a status that has asked the remote waits for a turn as a new one does.
func TestStatusTakesAnotherTurn(t *testing.T) {
	w := newWorld(t)
	limits := turns
	limits.Quantum = time.Hour // so that none is overdue
	w.turns = work.NewScheduler([3]work.Limits{work.Fetch: limits, work.CPU: computing})
	w.git("commit", "-q", "--allow-empty", "-m", "x")
	var taken []*work.Slot
	w.ask = func(context.Context, meta.Workspace) Remote {
		other := work.WithOwner(t.Context(), work.Owner{Subject: string(w.viewer.Subject(w.rec.ID))})
		for range turns.PerSubject {
			slot, err := w.turns.Acquire(other, work.Fetch, false)
			if err != nil {
				t.Error(err)
			}
			taken = append(taken, slot)
		}
		return Remote{}
	}
	ended := make(chan error, 1)
	go func() {
		s, err := w.Status(t.Context(), w.rec.ID, "")
		if err == nil {
			s.Close()
		}
		ended <- err
	}()
	wait.For(t, "a status that waits", func() error {
		return wait.Check(w.turns.Load()[work.Fetch].Waiting == 1, "%+v", w.turns.Load()[work.Fetch])
	})
	for _, slot := range taken {
		slot.Release()
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestInspectionsComputeBySubject: git and this process work on an inspection in the turns of its subject,
// and one inspection of a subject computes at a time.
func TestInspectionsComputeBySubject(t *testing.T) {
	w := newWorld(t)
	ctx := w.withJob(t.Context(), w.rec.ID)
	v, end, err := w.open(ctx, w.rec.ID, "")
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	job := work.JobOf(v.Context())
	if job == nil || job.Subject != string(w.viewer.Subject(w.rec.ID)) || !job.GivesWay {
		t.Fatalf("the files are read by the job %+v", job)
	}
	err = w.compute(v.Context(), func() error {
		same, stop := context.WithCancel(v.Context())
		stop()
		if err := w.compute(same, func() error { return nil }); !errors.Is(err, context.Canceled) {
			t.Errorf("a second one of the subject: %v", err)
		}
		other := work.WithOwner(t.Context(), work.Owner{Subject: "other"})
		return w.compute(other, func() error { return nil })
	})
	if err != nil {
		t.Error(err)
	}
}

// TestWorktrees: a worktree is named, as git names it, if its branch or its detached HEAD has commits that
// the remote did not have, also after the workspace has ended.
func TestWorktrees(t *testing.T) {
	w := newWorld(t)
	commit := func(dir string, n int) {
		t.Helper()
		for range n {
			w.git("-C", dir, "commit", "-q", "--allow-empty", "-m", "x")
		}
	}
	w.git("worktree", "add", "-q", "-b", "topic/a", "trees/a")
	commit("trees/a", 2)
	w.git("worktree", "add", "-q", "--detach", "trees/b")
	commit("trees/b", 1)
	w.git("worktree", "add", "-q", "--detach", "same", "topic/a~1")
	w.git("worktree", "add", "-q", "-b", "packed", "p")
	commit("p", 3)
	w.git("pack-refs", "--all")
	w.git("gc", "-q")
	for _, args := range [][]string{{"-b", "unchanged", "c"}, {"--detach", "old", "HEAD~1"}, {"-b", "older", "d", "HEAD~2"}} {
		w.git(append([]string{"worktree", "add", "-q"}, args...)...)
	}
	want := make(map[string]string)
	for name, dir := range map[string]string{"a": "trees/a", "b": "trees/b", "p": "p", "same": "same"} {
		branch := strings.TrimPrefix(w.git("-C", dir, "rev-parse", "--symbolic-full-name", "HEAD"), "refs/heads/")
		if branch == "HEAD" {
			branch = ""
		}
		want[name] = fmt.Sprint(branch, " ", w.git("-C", dir, "rev-parse", "HEAD"), " ", w.git("-C", dir, "rev-list", "--count", "HEAD", "--not", "--remotes"))
	}
	check := func(complaint string) {
		t.Helper()
		s := w.status()
		got := make(map[string]string)
		for _, tree := range s.Worktrees {
			if tree.Ahead == nil {
				t.Fatalf("%s: %s", tree.Name, s.WorktreesError)
			}
			got[tree.Name] = fmt.Sprint(tree.Head.Name, " ", tree.Head.ID, " ", *tree.Ahead)
		}
		if !maps.Equal(got, want) || complaint == "" && s.WorktreesError != "" || !strings.Contains(s.WorktreesError, complaint) {
			t.Errorf("got %v, %q; want %v, %q", got, s.WorktreesError, want, complaint)
		}
		if *s.Ahead != 0 || s.Head.Name != "main" {
			t.Errorf("HEAD is at %+v, %d ahead", s.Head, *s.Ahead)
		}
	}
	check("")
	trees := filepath.Join(w.dir, ".git/worktrees")
	for _, name := range []string{"0fifo", "0link", "0none", "0other"} {
		if err := os.Mkdir(filepath.Join(trees, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.WriteFile(filepath.Join(trees, "0file"), []byte("x"), 0o644), unix.Mkfifo(filepath.Join(trees, "0fifo/HEAD"), 0o644)); err != nil {
		t.Fatal(err)
	}
	check("0fifo")
	if err := errors.Join(os.RemoveAll(filepath.Join(trees, "0fifo")), os.Symlink("/etc/passwd", filepath.Join(trees, "0link/HEAD"))); err != nil {
		t.Fatal(err)
	}
	check("0link")
	if err := errors.Join(os.Remove(filepath.Join(trees, "0link/HEAD")), os.WriteFile(filepath.Join(trees, "0other/HEAD"), []byte("ref: refs/tags/x"), 0o644)); err != nil {
		t.Fatal(err)
	}
	check("refs/tags/x")
	for i := range quarantine.MaxWorktrees {
		if err := os.Mkdir(filepath.Join(trees, fmt.Sprintf("z%03d", i)), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	check("more than 100 worktrees")
	if err := os.WriteFile(filepath.Join(trees, "0none/HEAD"), []byte(strings.Repeat("1", 40)), 0o644); err != nil {
		t.Fatal(err)
	}
	s := w.status() // a commit that is not there: all that differ are named, without numbers
	if len(s.Worktrees) <= len(want) || s.Worktrees[0].Ahead != nil || !strings.Contains(s.WorktreesError, "the commit is not there") {
		t.Errorf("got %+v, %q", s.Worktrees, s.WorktreesError)
	}
	if err := errors.Join(os.RemoveAll(trees), os.Symlink("/", trees)); err != nil {
		t.Fatal(err)
	}
	if s := w.status(); len(s.Worktrees) != 0 || !strings.Contains(s.WorktreesError, "worktrees") {
		t.Errorf("got %+v, %q", s.Worktrees, s.WorktreesError)
	}
}

// TestSlowReaderEnds: a client that reads less than 1 MiB of an answer in 10 s does not keep others from their turn.
func TestSlowReaderEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := work.NewScheduler([3]work.Limits{work.Fetch: {Slots: 1, PerSubject: 1, Quantum: time.Second}})
		turn, err := turns.Acquire(t.Context(), work.Fetch, false)
		if err != nil {
			t.Fatal(err)
		}
		granted := make(chan *work.Slot)
		go func() {
			slot, err := turns.Acquire(work.WithOwner(t.Context(), work.Owner{Subject: "other"}), work.Fetch, false)
			if err != nil {
				t.Error(err)
			}
			granted <- slot
		}()
		began := time.Now()
		o := &Output{reading: (&pair{turn: turn}).read(t.Context()), close: turn.Release, write: func(ctx context.Context, w io.Writer) error {
			for range 5 {
				time.Sleep(stalledReader - time.Second) // on the test's clock
				if _, err := w.Write(make([]byte, 1<<20)); err != nil || ctx.Err() != nil {
					t.Errorf("a reader that goes on: %v, %v", err, context.Cause(ctx))
				}
			}
			<-ctx.Done()
			return errors.New("the client is gone")
		}}
		err = o.Write(io.Discard)
		if _, ok := err.(*work.StalledError); !ok || time.Since(began) != 5*(stalledReader-time.Second)+stalledReader {
			t.Errorf("it ended with %v after %v", err, time.Since(began))
		}
		o.Close()
		(<-granted).Release()
	})
}
