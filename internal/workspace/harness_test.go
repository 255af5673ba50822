package workspace

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/clone"
	"github.com/helmdeck/repos/internal/disk/trash"
	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/overlay"
	"github.com/helmdeck/repos/internal/repo/checkout"
	"github.com/helmdeck/repos/internal/repo/remote"
	"github.com/helmdeck/repos/internal/volume"
	"github.com/helmdeck/repos/tests/testclone"
	"github.com/helmdeck/repos/tests/testdb"
	"github.com/helmdeck/repos/tests/testdir"
	"github.com/helmdeck/repos/tests/testgit"
)

// TestMain makes the test binary also a container that has a workspace: a process in
// a mount namespace of its own, with copies of our mounts.
func TestMain(m *testing.M) {
	checkout.ServeJob()
	if root := os.Getenv("HELMDECK_TEST_HOLDER"); root != "" {
		// Without the mounts of other tests, which wait until theirs are free.
		points, err := overlay.Mounts("/var/tmp")
		for _, p := range points {
			if !strings.HasPrefix(p.Path, root+"/") {
				// The error is ignored: a mount that hides another, as engines have, takes it along.
				_ = unix.Unmount(p.Path, unix.MNT_DETACH)
			}
		}
		fmt.Println("holding", err)
		io.Copy(io.Discard, os.Stdin) // until the test lets go
		return
	}
	os.Exit(m.Run())
}

// world has a data directory with its managers, and a remote with the repository "r".
type world struct {
	t      *testing.T
	root   string
	server *gitserver.Server
	m      *Manager
	clones *clone.Manager
	db     *meta.DB
	trash  *trash.Trash
	ttl    time.Duration // of checkpoints
	held   time.Duration // HeldWait; long, because engines on the machine have copies of mounts for a moment
	wait   time.Duration // that of warm.Config
	boot   string
	doubt  bool
	older  bool // the kernel lacks metacopy
	close  func()
}

func scratch(t *testing.T) string {
	t.Helper()
	return testdir.New(t, "workspace")
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return newWorldIn(t, scratch(t))
}

func newWorldIn(t *testing.T, dir string) *world {
	t.Helper()
	s := testgit.Remote(t, "r", gitserver.Spec{Seed: 1, Files: 40, Commits: 2, Changes: 5})
	w := &world{t: t, root: filepath.Join(dir, "data"), server: s, boot: "boot", held: 2 * time.Minute}
	if err := os.Mkdir(w.root, 0o755); err != nil {
		t.Fatal(err)
	}
	w.start()
	return w
}

// start opens the data directory, as a start of the plugin does.
func (w *world) start() {
	w.t.Helper()
	d := testclone.OpenWith(w.t, w.root, w.boot, 64125, clone.Config{Now: time.Now}, w.wait)
	features := testdir.Features(w.t)
	features.Metacopy = features.Metacopy && !w.older
	m, err := NewManager(Config{Root: w.root, Boot: w.boot, DB: d.DB, Trash: d.Trash, Clones: d.Clones, Warm: d.Warm, Work: d.Work, Features: features, Log: d.Log, Now: time.Now, CheckpointTTL: w.ttl, HeldWait: w.held, Doubt: w.doubt}, d.State)
	if err != nil {
		w.t.Fatal(err)
	}
	m.reaper.max = reapFirst // tests can't wait longer
	w.m, w.clones, w.db, w.trash, w.close = m, d.Clones, d.DB, d.Trash, d.Close
}

func (w *world) restart() {
	w.t.Helper()
	w.close()
	w.start()
	if err := w.m.Sweep(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	if err := w.clones.SweepAll(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

// request prepares the checkout for an Open.
func (w *world) request(name, id string, options ...string) Request {
	w.t.Helper()
	given := map[string]string{"repo": w.server.URL("r"), "refresh": "never"}
	for i := 0; i < len(options); i += 2 {
		given[options[i]] = options[i+1]
	}
	o, err := volume.Parse(given, nil, volume.AllSchemes())
	if err != nil {
		w.t.Fatal(err)
	}
	c := w.clones.Get(o.Subject, o.Repo)
	co, err := c.Prepare(w.t.Context(), clone.Spec{Source: remote.Source{URL: o.Repo, Ref: o.Ref, Refresh: o.Refresh}, UID: o.UID, GID: o.GID, CacheLink: o.CacheLink})
	if err != nil {
		w.t.Fatal(err)
	}
	return Request{Lease: Lease{name, id}, Options: o, Clone: c, Checkout: co}
}

// open opens a workspace, and returns its record and where it is mounted.
func (w *world) open(name, id string, options ...string) (meta.Workspace, string) {
	w.t.Helper()
	r := w.request(name, id, options...)
	// A kept workspace needs the record of its volume.
	if err := w.db.Update(func(tx *meta.Tx) error { return tx.PutVolume(meta.Volume{Name: name, Options: r.Options.Map()}) }); err != nil {
		w.t.Fatal(err)
	}
	rec, err := w.m.Open(w.t.Context(), r)
	if err != nil {
		w.t.Fatal(err)
	}
	return rec, w.m.Mountpoint(rec)
}

func (w *world) release(name, id string) {
	w.t.Helper()
	if _, err := w.m.Release(w.t.Context(), Lease{name, id}); err != nil {
		w.t.Fatal(err)
	}
}

// workspaces returns the paths of the workspaces' directories.
func (w *world) workspaces() []string {
	w.t.Helper()
	paths, err := filepath.Glob(filepath.Join(w.root, "clones/*/*/workspaces/*"))
	if err != nil {
		w.t.Fatal(err)
	}
	return paths
}

// records returns the workspaces in the database.
func (w *world) records() map[string]meta.Workspace {
	w.t.Helper()
	w.close()
	state := testdb.Records(w.t, w.root)
	w.start()
	return state.Workspaces
}
