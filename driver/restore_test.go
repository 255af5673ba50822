package driver

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/helmdeck/repos/internal/gitserver"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/tests/testgit"
)

// lose makes a workspace with a new commit, an untracked file and a removed directory, ends it, and
// returns the ID of its discard and its commit.
func (w *world) lose(name string) (id, head string) {
	w.t.Helper()
	dir := w.mountOK(name, "lost")
	write(w.t, dir, "README.md", "changed")
	testgit.GitAny(w.t, dir, "commit", "-qam", "mine")
	write(w.t, dir, "untracked", "x")
	if err := os.RemoveAll(filepath.Join(dir, "src")); err != nil {
		w.t.Fatal(err)
	}
	head = testgit.GitAny(w.t, dir, "rev-parse", "HEAD")
	before := len(w.core.Workspaces.Discards())
	w.unmountOK(name, "lost")
	list := w.discards(name, before+1)
	return list[before].ID, head
}

// TestRestore checks that a restored volume has the whole workspace, takes missing options from the
// discard, and does not need the remote. When the volume is removed, its workspace is the same
// discard again.
func TestRestore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create("v", "uid", "1234", "gid", "2345", "cache", "off")
	id, head := w.lose("v")
	w.removeOK("v")
	g := gitserver.NewGate()
	w.server.Wrap(g.Fault)
	defer close(g.Open)
	again := map[string]string{"repo": w.server.URL("r"), "restore": id}
	for round := range 3 {
		if err := w.core.Create(t.Context(), "again", again); err != nil {
			t.Fatal(err)
		}
		wantErr(t, "the same Create again", w.core.Create(t.Context(), "again", again))
		wantErr(t, "another one of it", w.core.Create(t.Context(), "twice", again), id, "was restored already", `volume "again" has it`)
		if round == 1 {
			w.restart()
		}
		s := w.status("again")
		if s["mode"] != "keep" || s["discards"] != 0 || s["kept_commit"] == "" {
			t.Errorf("status %v", s)
		}
		dir := w.mountOK("again", "1")
		if testgit.GitAny(t, dir, "rev-parse", "HEAD") != head || !has(t, dir, "untracked") || has(t, dir, "src") {
			t.Errorf("git status in the restored workspace: %s", testgit.GitAny(t, dir, "status"))
		}
		if has(t, dir, ".hdcache") {
			t.Error("the volume has a cache, but the discard's options have cache=off")
		}
		data, err := os.ReadFile(filepath.Join(dir, ".git/helmdeck.json"))
		if err != nil {
			t.Fatal(err)
		}
		var about map[string]any
		if err := json.Unmarshal(data, &about); err != nil || about["volume"] != "again" {
			t.Errorf("helmdeck.json: %s, %v", data, err)
		}
		write(t, dir, "more", "x")
		w.unmountOK("again", "1")
		w.removeOK("again")
		if d := w.discards("again", 1)[0]; d.ID != id {
			t.Errorf("the discard of the restored volume is %+v, want the same ID", d)
		}
	}
}

// TestRestoreRefused checks that a refused restore leaves no volume behind, and the discard in place.
func TestRestoreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create("v", "uid", "1234", "gid", "1234", "subject", "s")
	id, _ := w.lose("v")
	live := w.mountOK("v", "1")
	url := w.server.URL("r")
	for _, tt := range []struct {
		name  string
		opts  map[string]string
		words []string
	}{
		{"unknown", map[string]string{"restore": "0123456789abcdef"}, []string{`no discard "0123456789abcdef"`, "/v1/discards"}},
		{"no ID", map[string]string{"restore": "../../x"}, []string{"restore", "16 hex digits"}},
		{"not ended", map[string]string{"restore": filepath.Base(live)}, []string{"no discard"}},
		{"another subject", map[string]string{"restore": id, "subject": "other"}, []string{"subject", `"other" is not that of the discard`, "s"}},
		{"the default subject", map[string]string{"restore": id, "subject": "default"}, []string{"subject", "is not that of the discard"}},
		{"another repository", map[string]string{"restore": id, "repo": w.server.URL("x"), "subject": "s"}, []string{"repo", "is not that of the discard", url}},
		{"another uid", map[string]string{"restore": id, "uid": "7", "subject": "s"}, []string{"uid", `"7" is not that of the discard`, "1234", "left out"}},
		{"another ref", map[string]string{"restore": id, "ref": "nightly", "subject": "s"}, []string{"ref", `"nightly"`, "main"}},
		{"private", map[string]string{"restore": id, "mode": "private", "subject": "s"}, []string{"mode", `"private" can't be with a restore`, "keep"}},
		{"shared", map[string]string{"restore": id, "mode": "shared", "subject": "s"}, []string{"mode", "keep"}},
	} {
		opts := map[string]string{"repo": url}
		maps.Copy(opts, tt.opts)
		wantErr(t, tt.name, w.core.Create(t.Context(), "new", opts), tt.words...)
	}
	// A Create that can't be recorded changes nothing.
	if err := w.core.DB.Close(); err != nil {
		t.Fatal(err)
	}
	good := map[string]string{"repo": url, "restore": id, "subject": "s", "refresh": "never"}
	if err := w.core.Create(t.Context(), "new", good); err == nil {
		t.Error("Create without a database succeeded")
	}
	for _, restarted := range []bool{false, true} {
		if restarted {
			root := w.core.Root
			w.core.Work.Close()
			w.start(root)
		}
		if got := w.List(); len(got) != 1 {
			t.Errorf("volumes %+v", got)
		}
		if got := w.left("volumes"); len(got) != 3 { // the manifest of v, and the two mounts
			t.Errorf("left %q", got)
		}
		w.discards("v", 1)
	}
	if err := w.core.Create(t.Context(), "new", good); err != nil {
		t.Fatal(err)
	}
	w.mountOK("new", "1")
	w.unmountOK("new", "1")
}

// TestRestoredWorkspaceIsGone checks that Mount returns an error if the workspace of a restored volume is gone.
// It must not make a new one.
func TestRestoredWorkspaceIsGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create("v")
	id, _ := w.lose("v")
	w.create("new", "restore", id)
	root := w.core.Root
	w.core.Close()
	db, _, err := meta.Open(filepath.Join(root, "meta.db"))
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Update(func(tx *meta.Tx) error { return tx.DeleteWorkspace(id) }); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	w.start(root)
	_, err = w.Mount(t.Context(), "new", "1")
	wantErr(t, "mount", err, `volume "new"`, "restored into it is gone", "remove the volume")
	w.removeOK("new")
}

// TestStatusOmitsDiscardsOfOtherSubjects checks that Status does not count discards that an earlier volume of the same
// name left for another subject.
func TestStatusOmitsDiscardsOfOtherSubjects(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create("v")
	w.lose("v")
	if s := w.status("v"); s["discards"] != 1 || s["discard_bytes"] == int64(0) {
		t.Errorf("status %v", s)
	}
	w.removeOK("v")
	w.create("v", "subject", "other")
	if s := w.status("v"); s["discards"] != 0 || s["discard_bytes"] != int64(0) {
		t.Errorf("status %v", s)
	}
	for _, d := range w.core.Workspaces.Discards() {
		if got := d.ExpiresAt.Sub(d.EndedAt); got != time.Hour {
			t.Errorf("the discard expires after %v, want an hour", got)
		}
	}
}
