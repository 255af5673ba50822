// Package testclone opens a data directory up to its clones, with the machine's git, for tests of what stands on them.
package testclone

import (
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/helmdeck/repos/internal/clone"
	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/layer"
	"github.com/helmdeck/repos/internal/work"
	"github.com/helmdeck/repos/tests/testdb"
)

// Data is an open data directory with its clones.
type Data struct {
	testdb.Data
	Clones *clone.Manager
	Close  func() // which the end of the test calls too
}

// Open opens a data directory, as a plugin that starts in a boot and fetches as uid.
func Open(t testing.TB, root, boot string, uid uint32) Data {
	t.Helper()
	program, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	g, err := git.New(git.Config{Program: program, UID: uid, GID: uid, Schemes: []string{"http"}})
	if err != nil {
		t.Fatal(err)
	}
	d, group := testdb.Open(t, root), work.NewGroup()
	layers := layer.New(layer.Config{
		Root: root, Boot: boot, DB: d.DB, Trash: d.Trash, Log: d.Log, Now: time.Now, Background: group.Go,
	}, d.State)
	clones, err := clone.NewManager(clone.Config{AskTimeout: 5 * time.Minute, Store: layers, Work: group, Git: g}, d.State)
	if err != nil {
		t.Fatal(err)
	}
	end := sync.OnceFunc(func() {
		clones.Close()
		if err := d.DB.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(end)
	return Data{d, clones, end}
}
