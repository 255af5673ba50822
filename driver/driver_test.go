package driver

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/helmdeck/repos/internal/git/gitserver"
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
			{"same, said otherwise", map[string]string{"url": w.server.URL("r") + ".git", "ref": "main", "cache": "shared", "refresh": "0s"}, nil},
			{"other ref", w.options("ref", "nightly"), []string{`volume "v" exists with other options`, "ref", "nightly", "main"}},
			{"other uid", w.options("uid", "7"), []string{`volume "v" exists with other options`, "uid", "7"}},
			{"wrong", w.options("uid", "x"), []string{"uid"}},
		} {
			wantErr(t, tt.name, w.core.Create(t.Context(), "v", tt.opts), tt.words...)
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
		wg.Go(func() { wantErr(t, "create", w.core.Create(t.Context(), "v", w.options())) })
	}
	wg.Wait()
	if got := len(w.List()); got != 1 {
		t.Errorf("%d volumes, want 1", got)
	}
}

// TestRefusedCreateLeavesNothing checks that a refused Create leaves nothing behind.
func TestRefusedCreateLeavesNothing(t *testing.T) {
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
		err := w.core.Create(t.Context(), "v", tt.opts)
		wantErr(t, tt.name, err, tt.words...)
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", tt.name, err)
		}
		if got := w.left("clones", "volumes", "trash"); len(got) > 0 || len(w.List()) > 0 {
			t.Errorf("%s: left %q and %d volumes", tt.name, got, len(w.List()))
		}
	}
}

// TestSilentServer checks that, while the server is silent, Create keeps the record, Get, List and
// Path answer, and Mount returns in time with an error that says what it waits for. When the server
// answers again, Mount works.
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

// TestHangUp checks that a client that hangs up while its Mount waits for the remote leaves nothing
// behind except the clone, which the next Mount uses.
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
	if err := w.core.Remove(t.Context(), "w"); err == nil || !strings.Contains(err.Error(), "is mounted") {
		t.Errorf("Remove during a Mount: %v", err)
	}
	cancel()
	if err := <-ended; err == nil {
		t.Error("a Mount whose client hung up succeeded")
	}
	if got := w.core.Workspaces.Leases("w"); len(got) > 0 {
		t.Errorf("leases: %+v", got)
	}
	close(g.Open)
	// A client that hung up before the workspace was ready gets nothing and leaves nothing behind.
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.Mount(gone, "v", "2"); err == nil {
		t.Error("a Mount whose client is gone succeeded")
	}
	if got := w.left(); len(got) > 0 {
		t.Errorf("left: %q", got)
	}
	wantErr(t, "remove", w.core.Remove(t.Context(), "w"))
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
		t.Errorf("one ID is mounted at %q, want one directory", dirs)
	}
	for i := range 5 {
		err := w.core.Remove(t.Context(), "v")
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
	wantErr(t, "remove", w.core.Remove(t.Context(), "v"))
	wantErr(t, "remove again", w.core.Remove(t.Context(), "v"))
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

// TestSchemeNoLongerAllowed checks that the volume is listed, and that Mount returns an error that
// names the setting.
func TestSchemeNoLongerAllowed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if err := w.core.DB.Update(func(tx *meta.Tx) error {
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
