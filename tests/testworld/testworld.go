// Package testworld makes the fixtures of tests of layers: a remote repository, a data directory with its layers, git,
// and a clock.
package testworld

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/internal/overlay"
	"github.com/helmdeck/repos/internal/repo/layer"
	"github.com/helmdeck/repos/internal/volume"
	"github.com/helmdeck/repos/internal/work"
	"github.com/helmdeck/repos/tests/testdb"
	"github.com/helmdeck/repos/tests/testdir"
	"github.com/helmdeck/repos/tests/testgit"
	"github.com/helmdeck/repos/tests/testroot"
)

// Git returns a Git with the configuration c. Without a Program it runs the machine's git or, if Root is set, the git of
// that root filesystem, where the test binary is the program that checks out.
func Git(t testing.TB, c git.Config) *git.Git {
	t.Helper()
	c.Self = cmp.Or(c.Self, testroot.Self(c.Root))
	if c.Program == "" && c.Root != "" {
		c.Program = "/usr/bin/git"
	} else if c.Program == "" {
		var err error
		if c.Program, err = exec.LookPath("git"); err != nil {
			t.Fatal(err)
		}
	}
	g, err := git.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// Data is an open data directory with its layers, and the means to build more.
type Data struct {
	testdb.Data
	Git    *git.Git
	Work   *work.Group
	Layers *layer.Store
	Close  func() // ends all work; the end of the test calls it too
}

// Open opens a data directory like a plugin that starts during a boot. The caller must call Layers.Run.
func Open(t testing.TB, root, boot string, now func() time.Time, c git.Config) Data {
	t.Helper()
	d := Data{Data: testdb.Open(t, root), Git: Git(t, c), Work: work.NewGroup()}
	d.Layers = layer.New(layer.Config{
		Root: root, Boot: boot, DB: d.DB, Trash: d.Trash, Log: d.Log, Now: now, Background: d.Work.Go,
	}, d.State)
	d.Close = sync.OnceFunc(func() {
		d.Work.Close()
		if err := d.DB.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(d.Close)
	return d
}

// World is a remote with the repository "r", an empty data directory, and a clock that a test can advance.
type World struct {
	T      *testing.T
	Root   string // the data directory
	System string // the root filesystem whose git runs; empty: the machine's
	Server *gitserver.Server

	mu  sync.Mutex
	now time.Time
}

// New makes a World. If system is a root filesystem, the data directory is in it.
func New(t *testing.T, system string) *World {
	t.Helper()
	w := &World{T: t, System: system, now: time.Now()}
	w.Server = testgit.Remote(t, "r", gitserver.Spec{Seed: 1, Files: 60, Commits: 3, Changes: 5, Branches: []string{"feature/x"}})
	w.Root = filepath.Join(testdir.NewIn(t, filepath.Join(system, "/var/tmp"), "world"), "data")
	if err := os.Mkdir(w.Root, 0o755); err != nil {
		t.Fatal(err)
	}
	return w
}

// WithBothGits runs a test with the machine's git, for which system is empty, and with the shipped git.
func WithBothGits(t *testing.T, f func(t *testing.T, system string)) {
	t.Run("machine", func(t *testing.T) { f(t, "") })
	t.Run("rootfs", func(t *testing.T) { f(t, testroot.New(t)) })
}

// Fetcher is the uid and gid of the owner of a World's stores.
const Fetcher = 64124

// Open opens the data directory like a plugin that starts during a boot. c configures git.
func (w *World) Open(boot string, c git.Config) Data {
	w.T.Helper()
	c.Root, c.UID, c.GID, c.Schemes = w.System, Fetcher, Fetcher, []string{"http", "https"}
	return Open(w.T, w.Root, boot, w.Now, c)
}

// Now returns the time of the clock.
func (w *World) Now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

// Advance sets the clock forward.
func (w *World) Advance(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

// Options parses options, given as pairs of names and values, for a volume of the repository.
func (w *World) Options(options ...string) volume.Options {
	w.T.Helper()
	given := map[string]string{"repo": w.Server.URL("r")}
	for i := 0; i < len(options); i += 2 {
		given[options[i]] = options[i+1]
	}
	o, err := volume.Parse(given, nil, volume.AllSchemes())
	if err != nil {
		w.T.Fatal(err)
	}
	return o
}

// Push adds a commit to a branch of the remote, and returns its ID. The content depends on the clock.
func (w *World) Push(branch string) string {
	w.T.Helper()
	return w.Commit(branch, gitserver.Change{Path: "pushed", Content: w.Now().String() + branch})
}

// Commit adds a commit with changes to a branch of the remote, and returns its ID.
func (w *World) Commit(branch string, changes ...gitserver.Change) string {
	w.T.Helper()
	id, err := gitserver.Commit(w.Server.Path("r"), branch, changes...)
	if err != nil {
		w.T.Fatal(err)
	}
	return id
}

// Mount mounts layers, topmost first, like a workspace of uid, and returns the mount point. The upper directory is
// upper in the same directory.
func (w *World) Mount(lower []string, uid int) string {
	w.T.Helper()
	dir := testdir.New(w.T, "mount")
	for _, d := range []string{"upper", "work", "tree"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			w.T.Fatal(err)
		}
		if err := os.Chown(filepath.Join(dir, d), uid, uid); err != nil {
			w.T.Fatal(err)
		}
	}
	target := filepath.Join(dir, "tree")
	if err := overlay.Mount(overlay.Spec{
		Lower: lower, Upper: filepath.Join(dir, "upper"), Work: filepath.Join(dir, "work"), Target: target, Volatile: true,
	}); err != nil {
		w.T.Fatal(err)
	}
	return target
}
