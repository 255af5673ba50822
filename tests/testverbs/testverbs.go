// Package testverbs opens the volumes of a data directory with the machine's git, for tests of front ends.
package testverbs

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/helmdeck/repos/internal/verbs"
	"github.com/helmdeck/repos/internal/volume"
	"github.com/helmdeck/repos/internal/workspace"
	"github.com/helmdeck/repos/tests/testclone"
	"github.com/helmdeck/repos/tests/testdir"
)

// World is a data directory with its volumes. Changed fields take effect at the next Start.
type World struct {
	*verbs.Volumes
	MaxLeases int  // limit for each subject
	Doubt     bool // whether inherited leases are in doubt
	// Now is the clock of the volumes; nil for time.Now.
	Now               func() time.Time
	CredentialChanges func() int64

	Close func()

	t testing.TB
}

// New makes a data directory and opens it. The end of the test closes it.
func New(t testing.TB) *World {
	t.Helper()
	root := filepath.Join(testdir.New(t, "verbs"), "data")
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	w := &World{t: t}
	w.Start(root)
	return w
}

// Start opens a data directory like a process that starts.
func (w *World) Start(root string) {
	w.t.Helper()
	d := testclone.Open(w.t, root, "boot", 64126)
	workspaces, err := workspace.NewManager(workspace.Config{
		Root: root, DB: d.DB, Trash: d.Trash, Clones: d.Clones, Warm: d.Warm, Work: d.Work, Features: testdir.Features(w.t), Log: d.Log, Now: time.Now,
		DiscardTTL: time.Hour, MaxLeases: func(string) (int, bool) { return w.MaxLeases, false }, HeldWait: 2 * time.Minute, StartWait: 1, Doubt: w.Doubt,
	}, d.State)
	if err != nil {
		w.t.Fatal(err)
	}
	schemes, err := volume.ParseSchemes("")
	if err != nil {
		w.t.Fatal(err)
	}
	now := time.Now
	if w.Now != nil {
		now = w.Now
	}
	w.Volumes, err = verbs.New(verbs.Config{
		Root: root, DB: d.DB, Clones: d.Clones, Workspaces: workspaces, Work: d.Work, Log: d.Log, Now: now, Schemes: schemes,
		CredentialChanges: w.CredentialChanges,
	}, d.State)
	if err != nil {
		w.t.Fatal(err)
	}
	w.Close = d.Close
}
