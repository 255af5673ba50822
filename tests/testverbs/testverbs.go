// Package testverbs opens the volumes of a data directory with the machine's git, for tests of front ends.
package testverbs

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/helmdeck/repos/internal/clone"
	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/verbs"
	"github.com/helmdeck/repos/internal/volume"
	"github.com/helmdeck/repos/internal/workspace"
	"github.com/helmdeck/repos/tests/testclone"
	"github.com/helmdeck/repos/tests/testdir"
)

// World is a data directory with its volumes. Changed fields take effect at the next Start.
type World struct {
	*verbs.Volumes
	testclone.Data
	Workspaces *workspace.Manager
	MaxLeases  int // limit for each subject
	Limits     verbs.Limits
	Doubt      bool // whether inherited leases are in doubt
	// HeldWait is how long a Mount waits for a container that still has the workspace; zero for two minutes.
	HeldWait time.Duration
	// Now is the clock of the volumes and the clones; nil for time.Now.
	Now               func() time.Time
	CredentialChanges func() int64
	// MakeRoom is that of clone.Config.
	MakeRoom func(ctx context.Context, subject string, need disk.Size) error
	// Reached is that of verbs.Config. It may change at any time that no Mount runs.
	Reached func() error

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
	now := time.Now
	if w.Now != nil {
		now = w.Now
	}
	d := testclone.OpenWith(w.t, root, "boot", 64126, clone.Config{Now: now, CredentialChanges: w.CredentialChanges, MakeRoom: w.MakeRoom}, 0)
	w.Data = d
	var err error
	w.Workspaces, err = workspace.NewManager(workspace.Config{
		Root: root, Boot: "boot", DB: d.DB, Trash: d.Trash, Clones: d.Clones, Warm: d.Warm, Work: d.Work, Features: testdir.Features(w.t), Log: d.Log, Now: time.Now,
		CheckpointTTL: time.Hour, MaxLeases: func(string) (int, bool) { return w.MaxLeases, false }, HeldWait: cmp.Or(w.HeldWait, 2*time.Minute), StartWait: 1, Doubt: w.Doubt,
	}, d.State)
	if err != nil {
		w.t.Fatal(err)
	}
	schemes, err := volume.ParseSchemes("")
	if err != nil {
		w.t.Fatal(err)
	}
	w.Volumes, err = verbs.New(verbs.Config{
		Root: root, DB: d.DB, Clones: d.Clones, Workspaces: w.Workspaces, Work: d.Work, Log: d.Log, Now: now, Schemes: schemes, Limits: w.Limits,
		Reached: func() error {
			if w.Reached == nil {
				return nil
			}
			return w.Reached()
		},
	}, d.State)
	if err != nil {
		w.t.Fatal(err)
	}
}
