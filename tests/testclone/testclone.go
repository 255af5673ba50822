// Package testclone opens a data directory and its clones, with the machine's git, for tests of the
// packages above clone.
package testclone

import (
	"testing"
	"time"

	"github.com/helmdeck/repos/internal/clone"
	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/warm"
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
	d := testworld.Open(t, root, boot, time.Now, git.Config{UID: uid, GID: uid, Schemes: []string{"http"}})
	clones, err := clone.NewManager(clone.Config{AskTimeout: 5 * time.Minute, Store: d.Layers, Work: d.Work, Git: d.Git}, d.State)
	if err != nil {
		t.Fatal(err)
	}
	d.Work.Go(d.Layers.Run)
	d.Work.Go(clones.Measure)
	return Data{d, clones, warm.NewManager(warm.Config{Store: d.Layers, Use: clones.Use, Heavy: clones.Heavy}, d.State)}
}
