package driver

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/tests/testgit"
)

// lose makes a workspace with a new commit, an untracked file and a removed directory, ends it, and
// returns the ID of its checkpoint and its commit.
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
	before := len(w.core.Workspaces.Checkpoints())
	w.unmountOK(name, "lost")
	list := w.checkpoints(name, before+1)
	return list[before].ID, head
}

// begin creates a volume that begins with a checkpoint.
func (w *world) begin(name, id string, options ...string) {
	w.t.Helper()
	given := map[string]string{"repo": w.server.URL("r"), "from": id}
	for i := 0; i < len(options); i += 2 {
		given[options[i]] = options[i+1]
	}
	if err := w.core.Create(w.t.Context(), name, given); err != nil {
		w.t.Fatal(err)
	}
}

// TestFrom checks that a volume with the option from begins with the whole workspace, takes missing options from the
// checkpoint, and does not need the remote, any number of times, and that the checkpoint stays.
func TestFrom(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create("v", "uid", "1234", "gid", "2345", "cache", "off")
	id, head := w.lose("v")
	w.removeOK("v")
	g := gitserver.NewGate()
	w.server.Wrap(g.Fault)
	defer close(g.Open)
	given := map[string]string{"repo": w.server.URL("r"), "from": id}
	keep := map[string]string{"repo": w.server.URL("r"), "from": id, "mode": "keep"}
	for round := range 3 {
		for name, options := range map[string]map[string]string{"again": given, "keep": keep} {
			if err := w.core.Create(t.Context(), name, options); err != nil {
				t.Fatal(err)
			}
			wantErr(t, "the same Create again", w.core.Create(t.Context(), name, options))
			if round == 1 {
				w.restart()
			}
			dir := w.mountOK(name, "1")
			if testgit.GitAny(t, dir, "rev-parse", "HEAD") != head || !has(t, dir, "untracked") || has(t, dir, "src") {
				t.Errorf("git status in the workspace: %s", testgit.GitAny(t, dir, "status"))
			}
			if has(t, dir, ".git/hdcache") {
				t.Error("the volume has a cache, but the checkpoint's options have cache=off")
			}
			data, err := os.ReadFile(filepath.Join(dir, ".git/helmdeck.json"))
			if err != nil {
				t.Fatal(err)
			}
			var about map[string]any
			if err := json.Unmarshal(data, &about); err != nil || about["volume"] != name {
				t.Errorf("helmdeck.json: %s, %v", data, err)
			}
			write(t, dir, "more", "x")
			w.unmountOK(name, "1")
			if dir = w.mountOK(name, "2"); has(t, dir, "more") != (name == "keep") {
				t.Errorf("%s: the next mount has the file of the one before: %v", name, has(t, dir, "more"))
			}
			w.unmountOK(name, "2")
			w.removeOK(name)
			w.checkpoints(name, round+1)
		}
	}
	if err := w.core.Workspaces.EvictCheckpoint(id); err == nil {
		t.Error("a checkpoint that others stand on was evicted")
	}
}

// TestFromRefused checks that a refused Create leaves no volume behind.
func TestFromRefused(t *testing.T) {
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
		{"unknown", map[string]string{"from": "0123456789abcdef"}, []string{`no checkpoint "0123456789abcdef"`, "docker repos checkpoints ls"}},
		{"no ID", map[string]string{"from": "../../x"}, []string{"from", "16 hex digits"}},
		{"not ended", map[string]string{"from": filepath.Base(live)}, []string{"no checkpoint"}},
		{"another subject", map[string]string{"from": id, "subject": "other"}, []string{`no checkpoint "` + id + `" of the subject "other"`}},
		{"the default subject", map[string]string{"from": id}, []string{`no checkpoint "` + id + `" of the subject "default"`}},
		{"another repository", map[string]string{"from": id, "repo": w.server.URL("x"), "subject": "s"}, []string{"repo", "is not that of the checkpoint", url}},
		{"another uid", map[string]string{"from": id, "uid": "7", "subject": "s"}, []string{"uid", `"7" is not that of the checkpoint`, "1234", "left out"}},
		{"a ref", map[string]string{"from": id, "ref": "nightly", "subject": "s"}, []string{"ref", `"nightly"`, "can't be with from", "the commit of the checkpoint"}},
	} {
		opts := map[string]string{"repo": url}
		maps.Copy(opts, tt.opts)
		wantErr(t, tt.name, w.core.Create(t.Context(), "new", opts), tt.words...)
	}
	good := map[string]string{"repo": url, "from": id, "subject": "s", "refresh": "never", "ref": ""} // compose passes unset variables so
	if err := w.core.Create(t.Context(), "new", good); err != nil {
		t.Fatal(err)
	}
	w.mountOK("new", "1")
	w.unmountOK("new", "1")
}

// TestFromIsSilentAboutOtherSubjects checks that a subject gets the same error for what another one has as for what
// nobody has, in every phase of it, and whatever else is wrong.
func TestFromIsSilentAboutOtherSubjects(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create("v", "subject", "s")
	id, _ := w.lose("v")
	url := w.server.URL("r")
	check := func(when, id string) {
		t.Helper()
		for _, opts := range []map[string]string{{}, {"ref": "nightly", "uid": "7"}, {"repo": w.server.URL("x")}} {
			var texts []string
			for _, of := range []string{id, "0123456789abcdef"} {
				given := map[string]string{"repo": url, "subject": "other", "from": of}
				maps.Copy(given, opts)
				err := w.core.Create(t.Context(), "new", given)
				if err == nil {
					t.Fatalf("%s: begins with %v", when, given)
				}
				texts = append(texts, strings.ReplaceAll(err.Error(), of, "ID"))
			}
			if texts[0] != texts[1] {
				t.Errorf("%s, with %v: %q, and for one that nobody has: %q", when, opts, texts[0], texts[1])
			}
		}
	}
	check("a checkpoint", id)
	w.begin("again", id, "subject", "s")
	dir := w.mountOK("again", "1")
	check("one that is in use", id)
	check("a mounted workspace", filepath.Base(dir))
	held, err := os.Open(filepath.Join(dir, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	w.unmountOK("again", "1")
	w.removeOK("again")
	check("one that has ended, and is in use", filepath.Base(dir))
	held.Close()
}

// TestFromIsGone checks that Mount returns an error if the checkpoint of a volume is gone. It must not begin with
// something else.
func TestFromIsGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create("v")
	id, _ := w.lose("v")
	for _, mode := range []string{"private", "shared", "keep"} {
		w.begin(mode, id, "mode", mode)
	}
	if err := w.core.Workspaces.EvictCheckpoint(id); err != nil {
		t.Fatal(err)
	}
	for _, mode := range []string{"private", "shared", "keep"} {
		_, err := w.Mount(t.Context(), mode, "1")
		wantErr(t, "mount", err, `volume "`+mode+`"`, id, "is gone", "remove the volume")
		w.removeOK(mode)
	}
}

// TestStatusOmitsCheckpointsOfOtherSubjects checks that Status does not count checkpoints that an earlier volume of the same
// name left for another subject.
func TestStatusOmitsCheckpointsOfOtherSubjects(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create("v")
	w.lose("v")
	if s := w.status("v"); s["checkpoints"] != 1 || s["checkpoint_bytes"] == int64(0) {
		t.Errorf("status %v", s)
	}
	w.removeOK("v")
	w.create("v", "subject", "other")
	if s := w.status("v"); s["checkpoints"] != 0 || s["checkpoint_bytes"] != int64(0) {
		t.Errorf("status %v", s)
	}
	for _, d := range w.core.Workspaces.Checkpoints() {
		if got := d.ExpiresAt.Sub(d.EndedAt); got != time.Hour {
			t.Errorf("the checkpoint expires after %v, want an hour", got)
		}
	}
}
