package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/tests/testdir"
	"github.com/helmdeck/repos/tests/testgit"
	"github.com/helmdeck/repos/tests/wait"
)

// TestLostDatabaseKeeps checks that kept workspaces and checkpoints, also those that others stand on, survive the loss
// of the database and of all mounts.
func TestLostDatabaseKeeps(t *testing.T) {
	t.Parallel()
	s, data := remote(t), scratch(t)
	p := start(t, data)
	p.create("kept", map[string]string{"repo": s.URL("sample"), "ref": "main", "mode": "keep"})
	write(t, filepath.Join(p.mount("kept", "1"), "mine"), "kept")
	p.unmount("kept", "1")
	p.create("lost", map[string]string{"repo": s.URL("sample"), "ref": "main"})
	var ids []string
	for _, text := range []string{"restored", "checkpoint"} {
		write(t, filepath.Join(p.mount("lost", text), "mine"), text)
		p.unmount("lost", text)
		ids = append(ids, p.checkpoints(t, len(ids)+1)[len(ids)].ID)
	}
	p.create("restored", map[string]string{"repo": s.URL("sample"), "from": ids[0], "mode": "keep"})
	write(t, filepath.Join(p.mount("restored", "1"), "more"), "x")
	p.unmount("restored", "1")
	p.stop()
	testdir.Unmount(t, data)
	if err := os.Remove(filepath.Join(p.at.data, "meta.db")); err != nil {
		t.Fatal(err)
	}

	p = start(t, data)
	for name, want := range map[string]string{"kept": "kept", "restored": "restored"} {
		dir := p.mount(name, "2")
		if got := read(t, filepath.Join(dir, "mine")); got != want {
			t.Errorf("the file of %s: %q", name, got)
		}
		if got := testgit.Git(t, dir, "status", "--porcelain"); !strings.HasPrefix(got, "?? mine") {
			t.Errorf("%s: status %q", name, got)
		}
		p.unmount(name, "2")
	}
	if d := p.checkpoints(t, 2); d[0].ID != ids[0] || d[1].ID != ids[1] || d[1].Volume != "lost" {
		t.Errorf("checkpoints %+v", d)
	}
	if err := api.Dial(filepath.Join(data, adminSocket)).RemoveCheckpoint(t.Context(), ids[1]); err != nil {
		t.Error(err)
	}
	p.checkpoints(t, 1) // on which the restored one stands
}

// checkpoints waits until n checkpoints exist and their changed files are counted. It returns them, the
// oldest end first.
func (p *process) checkpoints(t *testing.T, n int) []api.Checkpoint {
	t.Helper()
	client := api.Dial(filepath.Join(filepath.Dir(p.at.socket), adminSocket))
	var list []api.Checkpoint
	wait.For(t, "the checkpoints", func() error {
		var err error
		if list, err = client.Checkpoints(t.Context(), api.Filter{}); err != nil {
			t.Fatal(err)
		}
		for _, d := range list {
			if d.Changed == nil {
				return fmt.Errorf("not counted: %+v", d)
			}
		}
		return wait.Equal(len(list), n)
	})
	slices.SortFunc(list, func(a, b api.Checkpoint) int { return a.EndedAt.Compare(b.EndedAt) })
	return list
}
