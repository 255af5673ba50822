package workspace

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"
	"github.com/sirupsen/logrus/hooks/test"

	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/tests/wait"
)

// TestReapIsTriedAgain: if a step at the end of a workspace fails, it is tried again.
func TestReapIsTriedAgain(t *testing.T) {
	t.Parallel()
	w := newCheckpointWorld(t)
	log := test.NewLocal(w.m.config.Log)
	rec, dir := w.open("v", "1")
	write(t, filepath.Join(dir, "mine"), "x")
	// The reaper removes the mark of a volatile mount from here.
	work := filepath.Join(w.m.mounter.Dir(rec), "work", "work")
	if err := os.Rename(work, work+".aside"); err != nil {
		t.Fatal(err)
	}
	write(t, work, "in the way")
	w.release("v", "1")
	wait.For(t, "a failure", func() error {
		return wait.Check(slices.ContainsFunc(log.AllEntries(), func(e *logrus.Entry) bool { return strings.Contains(e.Message, "can't be removed") }), "%d lines in the log", len(log.AllEntries()))
	})
	if err := os.Remove(work); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(work+".aside", work); err != nil {
		t.Fatal(err)
	}
	wait.For(t, "the checkpoint", func() error {
		list := w.m.records.list(func(x *workspace) bool { return x.id == rec.ID && x.rec.Phase == meta.Checkpoint })
		return wait.Equal(len(list), 1)
	})
}
