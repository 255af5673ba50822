package driver

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/helmdeck/repos/internal/checkout"
	"github.com/helmdeck/repos/internal/gitserver"
	"github.com/helmdeck/repos/internal/volume"
	"github.com/helmdeck/repos/internal/workspace"
	"github.com/helmdeck/repos/tests/testclone"
	"github.com/helmdeck/repos/tests/testdir"
	"github.com/helmdeck/repos/tests/testgit"
)

func TestMain(m *testing.M) {
	checkout.ServeJob()
	os.Exit(m.Run())
}

func scratch(t *testing.T) string {
	t.Helper()
	return testdir.New(t, "driver")
}

// world is a data directory with a Driver, and a remote with the repository "r".
type world struct {
	*Driver
	t      *testing.T
	server *gitserver.Server
	close  func()
	// maxLeases of a subject, from the next start on.
	maxLeases int
	// doubt of inherited leases, from the next start on.
	doubt bool
}

func newWorld(t *testing.T) *world {
	t.Helper()
	s := testgit.Remote(t, "r", gitserver.Spec{Seed: 1, Files: 40, Commits: 2, Changes: 5})
	w := &world{t: t, server: s}
	root := filepath.Join(scratch(t), "data")
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	w.start(root)
	return w
}

func (w *world) start(root string) {
	w.t.Helper()
	d := testclone.Open(w.t, root, "boot", 64126)
	workspaces, err := workspace.NewManager(workspace.Config{
		Root: root, DB: d.DB, Trash: d.Trash, Clones: d.Clones, Features: testdir.Features(w.t), Log: d.Log, Now: time.Now,
		DiscardTTL: time.Hour, MaxLeases: w.maxLeases, HeldWait: 2 * time.Minute, Doubt: w.doubt,
	}, d.State)
	if err != nil {
		w.t.Fatal(err)
	}
	schemes, err := volume.ParseSchemes("")
	if err != nil {
		w.t.Fatal(err)
	}
	w.Driver, err = New(Config{
		Root: root, DB: d.DB, Clones: d.Clones, Workspaces: workspaces, Log: d.Log, Now: time.Now, MountWait: time.Minute, Schemes: schemes,
	}, d.State)
	if err != nil {
		w.t.Fatal(err)
	}
	w.close = d.Close
}

func (w *world) restart() {
	w.t.Helper()
	root := w.Root
	w.close()
	w.start(root)
}

// create makes a volume of the remote's main.
func (w *world) create(name string, options ...string) {
	w.t.Helper()
	if err := w.Create(w.t.Context(), name, w.options(options...)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) options(options ...string) map[string]string {
	m := map[string]string{"repo": w.server.URL("r"), "ref": "main"}
	for i := 0; i < len(options); i += 2 {
		m[options[i]] = options[i+1]
	}
	return m
}

func (w *world) mountOK(name, id string) string {
	w.t.Helper()
	dir, err := w.Mount(w.t.Context(), name, id)
	if err != nil {
		w.t.Fatal(err)
	}
	return dir
}

// left lists what is on disk of clones, workspaces and volumes, and what is mounted.
func (w *world) left(below ...string) []string {
	w.t.Helper()
	var list []string
	for _, dir := range below {
		if err := filepath.WalkDir(filepath.Join(w.Root, dir), func(path string, d fs.DirEntry, err error) error {
			if err == nil && filepath.Base(path) != dir {
				list = append(list, path)
			}
			return err
		}); err != nil {
			w.t.Fatal(err)
		}
	}
	points, err := testdir.Mounts(w.Root)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, p := range points {
		list = append(list, "mount "+p.Path)
	}
	return list
}

// wantErr fails unless err has all of the words; none of them means no error.
func wantErr(t *testing.T, what string, err error, words ...string) {
	t.Helper()
	if (err != nil) != (len(words) > 0) {
		t.Errorf("%s: %v, want %q", what, err, words)
		return
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%s: %v, want %q in it", what, err, word)
		}
	}
}
