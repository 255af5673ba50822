package driver

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/helmdeck/repos/internal/gitserver"
	"github.com/helmdeck/repos/internal/meta"
)

func TestCreateAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create("v")
	for _, restarted := range []bool{false, true} {
		if restarted {
			w.restart()
		}
		for _, tt := range []struct {
			name  string
			opts  map[string]string
			words []string
		}{
			{"same", w.options(), nil},
			{"same, said otherwise", map[string]string{"url": w.server.URL("r") + ".git", "ref": "main", "cache": "shared"}, nil},
			{"other ref", w.options("ref", "nightly"), []string{`volume "v" exists with other options`, "ref", "nightly", "main"}},
			{"other uid", w.options("uid", "7"), []string{`volume "v" exists with other options`, "uid", "7"}},
			{"wrong", w.options("uid", "x"), []string{"uid"}},
		} {
			wantErr(t, tt.name, w.Create(t.Context(), "v", tt.opts), tt.words...)
		}
	}
	if got := len(w.List()); got != 1 {
		t.Errorf("%d volumes, want 1", got)
	}
}

func TestCreateAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() { wantErr(t, "create", w.Create(t.Context(), "v", w.options())) })
	}
	wg.Wait()
	if got := len(w.List()); got != 1 {
		t.Errorf("%d volumes, want 1", got)
	}
}

// TestDefiniteNo: what the remote refuses leaves nothing behind.
func TestDefiniteNo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, tt := range []struct {
		name  string
		opts  map[string]string
		code  int
		words []string
	}{
		{"no repository", map[string]string{"repo": w.server.URL("nobody")}, 0, []string{"repository not found", w.server.URL("nobody")}},
		{"no ref", w.options("ref", "nobody"), 0, []string{"ref not found", `"nobody"`}},
		{"not allowed", w.options(), 403, []string{"authentication failed"}},
		{"refused", map[string]string{"repo": "http://127.0.0.1:1/x"}, 0, []string{"connection refused"}},
		{"no such host", map[string]string{"repo": "http://nonexistent.invalid/x"}, 0, []string{"host unknown"}},
		{"local path", map[string]string{"repo": "/etc"}, 0, []string{"repo"}},
		{"file", map[string]string{"repo": "file:///etc"}, 0, []string{"repo"}},
		{"option as repo", map[string]string{"repo": "--upload-pack=x"}, 0, []string{"repo"}},
		{"option as ref", w.options("ref", "--upload-pack=x"), 0, []string{"ref"}},
		{"password", map[string]string{"repo": "http://user:secret@h/x"}, 0, []string{"repo"}},
	} {
		w.server.Wrap(nil)
		if tt.code != 0 {
			w.server.Wrap(gitserver.Fail(tt.code))
		}
		err := w.Create(t.Context(), "v", tt.opts)
		wantErr(t, tt.name, err, tt.words...)
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", tt.name, err)
		}
		if got := w.left("clones", "volumes", "locks", "trash"); len(got) > 0 || len(w.List()) > 0 {
			t.Errorf("%s: left %q and %d volumes", tt.name, got, len(w.List()))
		}
	}
}

// TestSilentServer: Create keeps the record, Get and the like answer, Mount says
// in time what is going on, and works when the server is back.
func TestSilentServer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create("other")
	g := gitserver.NewGate()
	w.server.Wrap(g.Fault)
	w.create("v", "subject", "s")
	if v, err := w.Get("v"); err != nil || v.Status["last_error"] != "no answer within 3s" || v.Status["state"] != "asking" {
		t.Errorf("Get: %+v, %v", v, err)
	}
	if got := w.List(); len(got) != 2 || got[0].Name != "other" || got[1].Name != "v" {
		t.Errorf("List: %+v", got)
	}
	if got, err := w.Path("v"); got != "" || err != nil {
		t.Errorf("Path: %q, %v", got, err)
	}
	w.patience.most = time.Second
	_, err := w.Mount(t.Context(), "v", "1")
	wantErr(t, "mount", err, "asking "+w.server.URL("r"), "not done after 1s", "continues in the background: run it again")
	close(g.Open)
	w.patience.most = time.Minute
	dir := w.mountOK("v", "1")
	if _, err := os.Stat(filepath.Join(dir, "README.md")); err != nil {
		t.Error(err)
	}
	if v, err := w.Get("v"); err != nil || v.Status["last_error"] != "" || v.Mountpoint != dir || v.Status["state"] != "ready" {
		t.Errorf("Get: %+v, %v", v, err)
	}
}

// TestHangUp: the client goes while the Mount waits for the remote. Nothing is
// left of it, and the clone is there for the next one.
func TestHangUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create("v", "refresh", "never")
	w.mountOK("v", "0")
	if err := w.Unmount(t.Context(), "v", "0"); err != nil {
		t.Fatal(err)
	}
	w.create("w")
	g := gitserver.NewGate()
	w.server.Wrap(g.Fault)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := w.Mount(ctx, "w", "1")
		ended <- err
	}()
	<-g.Arrived
	if err := w.Remove(t.Context(), "w"); err == nil || !strings.Contains(err.Error(), "is mounted") {
		t.Errorf("Remove during a Mount: %v", err)
	}
	cancel()
	if err := <-ended; err == nil {
		t.Error("Mount succeeded")
	}
	if got := w.Workspaces.Leases("w"); len(got) > 0 {
		t.Errorf("leases: %+v", got)
	}
	close(g.Open)
	// Who hangs up at the very end gets nothing either, and leaves nothing.
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.Mount(gone, "v", "2"); err == nil {
		t.Error("Mount of who has gone succeeded")
	}
	if got := w.left(); len(got) > 0 {
		t.Errorf("left: %q", got)
	}
	wantErr(t, "remove", w.Remove(t.Context(), "w"))
}

func TestMountIsIdempotent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create("v")
	var mu sync.Mutex
	var dirs []string
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() {
			dir, err := w.Mount(t.Context(), "v", "1")
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			dirs = append(dirs, dir)
		})
	}
	wg.Wait()
	if len(slices.Compact(dirs)) != 1 {
		t.Errorf("one ID at %q", dirs)
	}
	for i := range 5 {
		err := w.Remove(t.Context(), "v")
		wantErr(t, "remove", err, `volume "v" is mounted`, "end its containers first")
		if _, err := os.Stat(filepath.Join(dirs[0], "README.md")); err != nil {
			t.Errorf("after %d unmounts: %v", i, err)
		}
		wantErr(t, "unmount", w.Unmount(t.Context(), "v", "1"))
	}
	wantErr(t, "unmount of an unknown ID", w.Unmount(t.Context(), "v", "1"))
	wantErr(t, "unmount of an unknown volume", w.Unmount(t.Context(), "nobody", "1"))
	if got := w.left(); len(got) > 0 {
		t.Errorf("left: %q", got)
	}
	wantErr(t, "remove", w.Remove(t.Context(), "v"))
	wantErr(t, "remove again", w.Remove(t.Context(), "v"))
	if got := w.left("volumes"); len(got) > 0 {
		t.Errorf("left: %q", got)
	}
	// The clone stays: the next volume reuses it.
	w.server.Reset()
	w.create("v")
	w.mountOK("v", "2")
	if v, err := w.Get("v"); err != nil || v.Status["reused"] != true || w.server.Stats("r").Clones != 0 {
		t.Errorf("%+v, %v, %+v", v, err, w.server.Stats("r"))
	}
}

// TestSchemeNoLongerAllowed: the volume is listed, and its Mount says why not.
func TestSchemeNoLongerAllowed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if err := w.DB.Update(func(tx *meta.Tx) error {
		return tx.PutVolume(meta.Volume{Name: "v", Options: map[string]string{"repo": "git://h/x"}})
	}); err != nil {
		t.Fatal(err)
	}
	w.restart()
	if got := w.List(); len(got) != 1 {
		t.Fatalf("List: %+v", got)
	}
	_, err := w.Mount(t.Context(), "v", "1")
	wantErr(t, "mount", err, `volume "v"`, "ALLOW_SCHEMES", "git")
}

func TestManifests(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create("v")
	w.create(strings.Repeat("long", 60))
	recs, err := Rebuild(w.Root)
	if err != nil || len(recs) != 2 {
		t.Fatalf("Rebuild: %+v, %v", recs, err)
	}
	for _, rec := range recs {
		w.mu.Lock()
		want := w.volumes[rec.Name].rec
		w.mu.Unlock()
		if !rec.CreatedAt.Equal(want.CreatedAt) || rec.Options["repo"] != want.Options["repo"] || rec.Options["ref"] != "main" {
			t.Errorf("%+v, want %+v", rec, want)
		}
	}
	// A Create or a Remove that did not come to its end, and one that is at work.
	if err := w.writeManifest(meta.Volume{Name: "gone"}); err != nil {
		t.Fatal(err)
	}
	temp := filepath.Join(w.manifestDir(), ".tmp-123")
	if err := os.WriteFile(temp, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := w.removeManifest("v"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := w.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		want := []string{w.manifestPath("v"), w.manifestPath(strings.Repeat("long", 60)), temp}
		slices.Sort(want)
		if got := w.left("volumes"); !slices.Equal(got, want) {
			t.Errorf("manifests %q, want %q", got, want)
		}
	}
	// At a start there is none at work.
	if _, err := New(w.Config, meta.State{}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(temp); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is left by a start: %v", temp, err)
	}
	// One that can't be read may be all that is left of a volume: it stays, and
	// does not keep the others from being read.
	broken := filepath.Join(w.manifestDir(), "broken.json")
	if err := os.WriteFile(broken, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := w.Sweep(t.Context()); err == nil || !strings.Contains(err.Error(), broken) {
		t.Errorf("Sweep: %v, want an error about %s", err, broken)
	}
	if _, err := os.Lstat(broken); err != nil {
		t.Error(err)
	}
	if recs, err := Rebuild(w.Root); len(recs) != 2 || err == nil {
		t.Errorf("Rebuild: %+v, %v; want two volumes and an error", recs, err)
	}
}
