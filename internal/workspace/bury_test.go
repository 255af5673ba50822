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
	"github.com/helmdeck/repos/tests/testdir"
)

// TestBuryIsTriedAgain: what could not be done with a workspace that has ended, is
// done once it can be.
func TestBuryIsTriedAgain(t *testing.T) {
	t.Parallel()
	w := keeping(t)
	log := test.NewLocal(w.m.Log)
	rec, dir := w.open("v", "1")
	write(t, filepath.Join(dir, "mine"), "x")
	// The mark of a volatile mount is removed from here.
	work := filepath.Join(w.m.dir(rec), "work", "work")
	if err := os.Rename(work, work+".aside"); err != nil {
		t.Fatal(err)
	}
	write(t, work, "in the way")
	w.release("v", "1")
	testdir.Eventually(t, "a failure", func() bool {
		return slices.ContainsFunc(log.AllEntries(), func(e *logrus.Entry) bool { return strings.Contains(e.Message, "can't be removed") })
	})
	if err := os.Remove(work); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(work+".aside", work); err != nil {
		t.Fatal(err)
	}
	testdir.Eventually(t, "the discard", func() bool {
		list := w.m.list(func(x *workspace) bool { return x.id == rec.ID && x.rec.Phase == meta.Discarded })
		return len(list) == 1
	})
}
