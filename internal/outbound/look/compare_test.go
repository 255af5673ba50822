package look

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/clone"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/outbound/quarantine"
	"github.com/helmdeck/repos/internal/volume"
	"github.com/helmdeck/repos/internal/workspace"
	"github.com/helmdeck/repos/tests/wait"
)

// another makes a workspace of another volume, with options beside the repository, as a world of its own.
func (w *world) another(name string, options map[string]string) *world {
	w.t.Helper()
	all := map[string]string{"repo": w.rec.Options["repo"], "mode": "keep"}
	for key, value := range options {
		all[key] = value
	}
	o, err := volume.Parse(all, nil, volume.AllSchemes())
	if err != nil {
		w.t.Fatal(err)
	}
	c := w.clones.Get(o.Subject, o.Repo)
	r := workspace.Request{Lease: workspace.Lease{Volume: name, ID: "1"}, Options: o, Clone: c}
	if o.From == "" {
		if r.Checkout, err = c.Prepare(w.t.Context(), clone.Spec{Source: sourceOf(o), UID: o.UID, GID: o.GID}); err != nil {
			w.t.Fatal(err)
		}
	}
	if err := w.db.Update(func(tx *meta.Tx) error { return tx.PutVolume(meta.Volume{Name: name, Options: o.Map()}) }); err != nil {
		w.t.Fatal(err)
	}
	rec, err := w.m.Open(w.t.Context(), r)
	if err != nil {
		w.t.Fatal(err)
	}
	other := *w
	other.rec, other.dir = rec, w.m.Mountpoint(rec)
	return &other
}

// write writes a file of the workspace.
func (w *world) write(name, text string) {
	w.t.Helper()
	path := filepath.Join(w.dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
		w.t.Fatal(err)
	}
}

// commit commits a file.
func (w *world) commit(name, text string) {
	w.t.Helper()
	w.write(name, text)
	w.git("add", name)
	w.git("commit", "-qm", "change")
}

// against returns the changes from another workspace to this one, as lines such as "added name".
func (w *world) against(from *world) (list []string) {
	w.t.Helper()
	s, err := w.Status(w.t.Context(), w.rec.ID, from.rec.ID)
	if err != nil {
		w.t.Fatal(err)
	}
	defer s.Close()
	for c, err := range s.All {
		if err != nil {
			w.t.Fatal(err)
		}
		list = append(list, string(c.Kind)+" "+c.Path)
	}
	return list
}

// TestCompare: two workspaces of one clone are compared with each other, also on different commits and on one checkpoint,
// and while one is mounted and the other one is not.
func TestCompare(t *testing.T) {
	w := newWorld(t)
	w.write("first", "x")
	at, err := w.m.Draft(t.Context(), w.rec.ID, workspace.Note{Name: "step"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.m.Keep(t.Context(), at.ID); err != nil {
		t.Fatal(err)
	}
	fork := w.another("fork", map[string]string{"from": at.ID})
	if got := fork.against(w); len(got) > 0 {
		t.Errorf("a fork differs: %q", got)
	}
	fork.write("second", "x")
	if err := os.Remove(filepath.Join(fork.dir, "README.md")); err != nil {
		t.Fatal(err)
	}
	want := []string{"deleted README.md", "added second"}
	if got := fork.against(w); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if _, err := w.m.Release(t.Context(), workspace.Lease{Volume: "v", ID: "1"}); err != nil {
		t.Fatal(err)
	}
	if got := w.against(fork); !slices.Equal(got, []string{"added README.md", "deleted second"}) {
		t.Errorf("the other way: %q", got)
	}
	old := w.another("old", map[string]string{"ref": w.rec.Commit})
	if got := old.against(fork); !slices.Contains(got, "deleted first") || !slices.Contains(got, "added README.md") {
		t.Errorf("a checkout: %q", got)
	}

	var refused *PairError
	foreign := w.another("foreign", map[string]string{"subject": "other"})
	if _, err := w.Diff(t.Context(), w.rec.ID, foreign.rec.ID, false); !errors.As(err, &refused) || !strings.Contains(err.Error(), "only workspaces of one repository") {
		t.Errorf("another subject: %v", err)
	}
	if _, err := w.Conflicts(t.Context(), w.rec.ID, w.rec.ID); !errors.As(err, &refused) || !strings.Contains(err.Error(), "the same workspace") {
		t.Errorf("itself: %v", err)
	}
	for _, pair := range [][2]string{{w.rec.ID, "none"}, {"none", w.rec.ID}} {
		if _, err := w.Status(t.Context(), pair[0], pair[1]); !errors.As(err, new(*workspace.NoWorkspaceError)) {
			t.Errorf("%q: %v", pair, err)
		}
	}
	if n := w.turns.Load()[1].Held; n != 0 {
		t.Errorf("%d turns are held", n)
	}
}

// TestCompareGivesWay: a Mount of either one ends the comparison, and no order of two comparisons waits for the other one.
func TestCompareGivesWay(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	w := newWorld(t)
	other := w.another("other", nil)
	done := make(chan error)
	for n := range 8 {
		a, b := w, other
		if n%2 == 1 {
			a, b = other, w
		}
		go func() {
			s, err := w.Status(t.Context(), a.rec.ID, b.rec.ID)
			if err == nil {
				s.Close()
			}
			done <- err
		}()
	}
	for range 8 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	leases := []workspace.Lease{{Volume: w.rec.Volume, ID: "1"}, {Volume: other.rec.Volume, ID: "1"}}
	for _, lease := range leases {
		if _, err := w.m.Release(t.Context(), lease); err != nil {
			t.Fatal(err)
		}
	}
	for _, lease := range leases {
		wait.For(t, "the workspaces to be parked", func() error { return w.m.ParkUnused(t.Context(), w.rec.Clone) })
		p, end, err := w.open(w.withJob(t.Context(), w.rec.ID), w.rec.ID, other.rec.ID)
		if err != nil {
			t.Fatal(err)
		}
		mounted := func() error {
			_, ok, err := w.m.Join(t.Context(), lease)
			return wait.Check(ok && err == nil, "joined %t, %v", ok, err)
		}
		wait.For(t, "the comparison to end", func() error { mounted(); return wait.Check(p.Context().Err() != nil, "it runs") })
		if err := context.Cause(p.Context()); !strings.Contains(err.Error(), "is being mounted") {
			t.Errorf("volume %q: %v", lease.Volume, err)
		}
		end()
		wait.For(t, "the volume to be mounted", mounted)
		if _, err := w.m.Release(t.Context(), lease); err != nil {
			t.Fatal(err)
		}
	}
}

// TestConflicts: the commits of two workspaces are merged, and what is not committed is counted.
func TestConflicts(t *testing.T) {
	w := newWorld(t)
	other := w.another("other", nil)
	check := func(what string, uncommitted [2]int64, conflicts ...string) {
		t.Helper()
		c, err := w.Conflicts(t.Context(), w.rec.ID, other.rec.ID)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if c.Clean != (len(conflicts) == 0) || !slices.Equal(c.Paths, conflicts) || c.Sides[0].Record.ID != w.rec.ID || c.Sides[1].Record.ID != other.rec.ID {
			t.Errorf("%s: %+v", what, c)
		}
		for n, s := range c.Sides {
			if s.Uncommitted == nil || *s.Uncommitted != uncommitted[n] {
				t.Errorf("%s: side %d: %v, %s, want %d files", what, n, s.Uncommitted, s.UncommittedError, uncommitted[n])
			}
		}
	}
	check("nothing", [2]int64{})
	w.commit("new", "x\n")
	w.write("README.md", "mine\n")
	check("one only", [2]int64{1, 0})
	other.commit("new", "y\n")
	check("both", [2]int64{1, 0}, "new")
	w.git("add", "README.md")
	w.git("commit", "-qm", "change")
	if err := os.Chmod(filepath.Join(w.dir, "README.md"), 0o755); err != nil {
		t.Fatal(err)
	}
	other.write("new", "x\n")
	other.git("reset", "-q", "--soft", "HEAD~1") // staged is not committed
	check("a mode", [2]int64{1, 1})
	other.git("commit", "-qam", "the same")
	w.git("checkout", "-q", "-f", "HEAD~1")
	check("detached", [2]int64{})
	w.git("checkout", "-q", "main")
	w.git("rm", "-q", "README.md")
	w.git("commit", "-qm", "x")
	check("deleted", [2]int64{})
	w.git("reset", "-q", "--soft", "HEAD~1")
	check("deleted again", [2]int64{1, 0})
	w.git("symbolic-ref", "HEAD", "refs/heads/none")
	if _, err := w.Conflicts(t.Context(), w.rec.ID, other.rec.ID); !errors.As(err, new(*quarantine.Refusal)) || !strings.Contains(err.Error(), "no commit yet") {
		t.Errorf("no commit: %v", err)
	}
	w.git("symbolic-ref", "HEAD", "refs/heads/main")
	dir := filepath.Join(w.dir, ".git")
	if err := errors.Join(os.Rename(dir, dir+"2"), unix.Mkfifo(dir, 0o644)); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Conflicts(t.Context(), w.rec.ID, other.rec.ID); !errors.As(err, new(*quarantine.Refusal)) {
		t.Errorf("a FIFO for .git: %v", err)
	}
	var left []fs.DirEntry
	left, err := os.ReadDir(w.quarantine.Dir)
	if err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
