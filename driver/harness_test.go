package driver

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/internal/repo/checkout"
	"github.com/helmdeck/repos/tests/testdir"
	"github.com/helmdeck/repos/tests/testgit"
	"github.com/helmdeck/repos/tests/testverbs"
)

func TestMain(m *testing.M) {
	checkout.ServeJob()
	os.Exit(m.Run())
}

// world is a data directory with a Driver, and a remote with the repository "r".
type world struct {
	*Driver
	core   *testverbs.World
	t      *testing.T
	server *gitserver.Server
}

func newWorld(t *testing.T) *world {
	t.Helper()
	s := testgit.Remote(t, "r", gitserver.Spec{Seed: 1, Files: 40, Commits: 2, Changes: 5})
	w := &world{t: t, server: s, core: testverbs.New(t)}
	w.serve()
	return w
}

// serve replaces the Driver with a new one for the same volumes.
func (w *world) serve() {
	w.Driver = New(Config{Volumes: w.core, Log: w.core.Log, Now: time.Now, MountWait: time.Minute})
}

func (w *world) start(root string) {
	w.t.Helper()
	w.core.Start(root)
	w.serve()
}

func (w *world) restart() {
	w.t.Helper()
	w.core.Close()
	w.start(w.core.Root)
}

// create makes a volume of the remote's branch main.
func (w *world) create(name string, options ...string) {
	w.t.Helper()
	if err := w.core.Create(w.t.Context(), name, w.options(options...)); err != nil {
		w.t.Fatal(err)
	}
}

// options returns the options of a volume that asks the remote at every Mount, because tests change
// the remote right after the Create.
func (w *world) options(options ...string) map[string]string {
	m := map[string]string{"repo": w.server.URL("r"), "ref": "main", "refresh": "always"}
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

// left lists the files below these directories of the data directory, and all mounts in it.
func (w *world) left(below ...string) []string {
	w.t.Helper()
	var list []string
	for _, dir := range below {
		if err := filepath.WalkDir(filepath.Join(w.core.Root, dir), func(path string, d fs.DirEntry, err error) error {
			if err == nil && filepath.Base(path) != dir {
				list = append(list, path)
			}
			return err
		}); err != nil {
			w.t.Fatal(err)
		}
	}
	points, err := testdir.Mounts(w.core.Root)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, p := range points {
		list = append(list, "mount "+p.Path)
	}
	return list
}

// wantErr checks that err contains all words. Without words, err must be nil.
func wantErr(t *testing.T, what string, err error, words ...string) {
	t.Helper()
	if (err != nil) != (len(words) > 0) {
		t.Errorf("%s: %v, want %q", what, err, words)
		return
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%s: %v, want an error with %q", what, err, word)
		}
	}
}
