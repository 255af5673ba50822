// Package testclone opens a data directory and its clones, with the machine's git, for tests of the
// packages above clone.
package testclone

import (
	"testing"
	"time"

	"github.com/helmdeck/repos/internal/clone"
	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/workspace/warm"
	"github.com/helmdeck/repos/tests/testworld"
)

// Data is an open data directory with its clones and warm layers.
type Data struct {
	testworld.Data
	Clones *clone.Manager
	Warm   *warm.Manager
}

// Open opens a data directory as a plugin does at its start. boot is the ID of the kernel's boot,
// and git fetches as uid.
func Open(t testing.TB, root, boot string, uid uint32) Data {
	t.Helper()
	return OpenWith(t, root, boot, uid, clone.Config{Now: time.Now}, 0)
}

// OpenWith is Open with a clock, with what else a test sets of the configuration of the clones, and with the wait of
// warm.Config.
func OpenWith(t testing.TB, root, boot string, uid uint32, c clone.Config, wait time.Duration) Data {
	t.Helper()
	d := testworld.Open(t, root, boot, c.Now, git.Config{UID: uid, GID: uid, Schemes: []string{"http"}})
	c.Root, c.DB, c.Trash, c.Log, c.Layers, c.Work, c.Git = root, d.DB, d.Trash, d.Log, d.Layers, d.Work, d.Git
	c.AskTimeout = 5 * time.Minute
	clones, err := clone.NewManager(c, d.State)
	if err != nil {
		t.Fatal(err)
	}
	d.Work.Go(d.Layers.Run)
	d.Work.Go(clones.Measure)
	return Data{d, clones, warm.NewManager(warm.Config{
		Root: root, DB: d.DB, Trash: d.Trash, Log: d.Log, Now: c.Now, Layers: d.Layers, Clones: clones, Background: d.Work.Go,
		Git: d.Git, Metacopy: true, Wait: wait,
	}, d.State)}
}
