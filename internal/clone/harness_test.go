package clone

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/helmdeck/repos/internal/checkout"
	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/gitserver"
	"github.com/helmdeck/repos/internal/layer"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/overlay"
	"github.com/helmdeck/repos/internal/remote"
	"github.com/helmdeck/repos/internal/volume"
	"github.com/helmdeck/repos/internal/work"
	"github.com/helmdeck/repos/tests/testdb"
	"github.com/helmdeck/repos/tests/testdir"
	"github.com/helmdeck/repos/tests/testgit"
	"github.com/helmdeck/repos/tests/testroot"
)

// TestMain lets the test binary be the program that checks out.
func TestMain(m *testing.M) {
	checkout.ServeJob()
	os.Exit(m.Run())
}

// fetcher owns the stores of these tests.
const fetcher = 64124

// world is a data directory with a Manager, and a remote with the repository "r".
type world struct {
	t      *testing.T
	root   string
	server *gitserver.Server
	m      *Manager
	db     *meta.DB
	close  func()
	// git is added to how git is run; it counts from the next start. Root is the root
	// filesystem whose git works here; empty: the machine's.
	git git.Config

	mu  sync.Mutex
	now time.Time
}

func scratch(t *testing.T) string {
	t.Helper()
	return testdir.New(t, "clone")
}

// withBothGits runs a test in a world with the machine's git, and in one with that
// of the plugin's root filesystem.
func withBothGits(t *testing.T, f func(t *testing.T, w *world)) {
	t.Run("machine", func(t *testing.T) { f(t, newWorld(t)) })
	t.Run("rootfs", func(t *testing.T) { f(t, newShippedWorld(t)) })
}

// newShippedWorld is newWorld with the git of the plugin's root filesystem.
func newShippedWorld(t *testing.T) *world {
	t.Helper()
	return newWorldIn(t, testroot.New(t))
}

// newWorld starts a remote, and a Manager on an empty data directory.
func newWorld(t *testing.T) *world {
	t.Helper()
	return newWorldIn(t, "")
}

// newWorldIn is newWorld with the git of a root filesystem, and the data below it.
func newWorldIn(t *testing.T, system string) *world {
	t.Helper()
	repos := scratch(t)
	if _, err := gitserver.Generate(filepath.Join(repos, "r.git"), gitserver.Spec{
		Seed: 1, Files: 60, Commits: 3, Changes: 5, Branches: []string{"feature/x"},
	}); err != nil {
		t.Fatal(err)
	}
	s, err := gitserver.Start(repos)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	data := scratch(t)
	if system != "" {
		data = testdir.NewIn(t, filepath.Join(system, "var/tmp"), "clone")
	}
	w := &world{t: t, git: git.Config{Root: system, Self: testroot.Self(system)}, root: filepath.Join(data, "data"), server: s, now: time.Now()}
	if err := os.Mkdir(w.root, 0o755); err != nil {
		t.Fatal(err)
	}
	w.start("boot 1")
	return w
}

// start opens what is in the data directory, as a plugin that starts in a boot.
func (w *world) start(boot string) {
	w.t.Helper()
	config := w.git
	config.Program, config.UID, config.GID, config.Schemes = "/usr/bin/git", fetcher, fetcher, []string{"http", "https"}
	if config.Root == "" {
		var err error
		if config.Program, err = exec.LookPath("git"); err != nil {
			w.t.Fatal(err)
		}
	}
	g, err := git.New(config)
	if err != nil {
		w.t.Fatal(err)
	}
	d := testdb.Open(w.t, w.root)
	background := work.NewGroup()
	layers := layer.New(layer.Config{
		Root: w.root, Boot: boot, DB: d.DB, Trash: d.Trash, Log: d.Log, Now: w.clock,
		Background: background.Go,
	}, d.State)
	m, err := NewManager(Config{Store: layers, Work: background, Git: g}, d.State)
	if err != nil {
		w.t.Fatal(err)
	}
	w.m, w.db = m, d.DB
	w.close = sync.OnceFunc(func() {
		m.Close()
		if err := d.DB.Close(); err != nil {
			w.t.Error(err)
		}
	})
	w.t.Cleanup(w.close)
}

// restart is close and start.
func (w *world) restart(boot string) {
	w.t.Helper()
	w.close()
	w.start(boot)
}

func (w *world) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

func (w *world) advance(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

// spec reads options as a Create does; repo is the remote's.
func (w *world) spec(options ...string) Spec {
	w.t.Helper()
	given := map[string]string{"repo": w.server.URL("r")}
	for i := 0; i < len(options); i += 2 {
		given[options[i]] = options[i+1]
	}
	o, err := volume.Parse(given, nil, volume.AllSchemes())
	if err != nil {
		w.t.Fatal(err)
	}
	return Spec{
		Source: remote.Source{URL: o.Repo, Ref: o.Ref, History: o.History, Refresh: o.Refresh, StaleIfError: o.StaleIfError},
		Files:  o.Files, UID: o.UID, GID: o.GID,
	}
}

func (w *world) clone(s Spec) *Clone { return w.m.Get(volume.DefaultSubject, s.URL) }

// dirOf returns the directory of a layer, or that of its kind.
func (c *Clone) dirOf(k meta.Kind, id string) string { return c.layers.Lower(k, id)[0] }

// collected waits until what nothing needs is gone.
func (w *world) collected(c *Clone) {
	w.t.Helper()
	testdir.Eventually(w.t, "the layers that nothing needs to go", func() bool {
		info, _ := c.Info()
		for _, l := range info.Layers {
			if l.Need == "" {
				return false
			}
		}
		return len(info.Layers) == len(testdir.Names(w.t, c.dirOf(meta.Tree, "")))+len(testdir.Names(w.t, c.dirOf(meta.GitLayer, "")))
	})
}

// prepare fails the test on an error.
func (w *world) prepare(s Spec) *Checkout {
	w.t.Helper()
	co, err := w.clone(s).Prepare(w.t.Context(), s, nil)
	if err != nil {
		w.t.Fatalf("prepare %q: %v", s.Ref, err)
	}
	return co
}

// mount mounts what a workspace would get, and returns where.
func (w *world) mount(co *Checkout, uid int) string {
	w.t.Helper()
	dir := scratch(w.t)
	for _, d := range []string{"upper", "work", "tree"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			w.t.Fatal(err)
		}
		if err := os.Chown(filepath.Join(dir, d), uid, uid); err != nil {
			w.t.Fatal(err)
		}
	}
	target := filepath.Join(dir, "tree")
	if err := overlay.Mount(overlay.Spec{
		Lower: co.Lower, Upper: filepath.Join(dir, "upper"), Work: filepath.Join(dir, "work"), Target: target, Volatile: true,
	}); err != nil {
		w.t.Fatal(err)
	}
	return target
}

// remote runs git on the remote's repository.
func (w *world) remote(args ...string) string {
	w.t.Helper()
	return run(w.t, "", 0, append([]string{"--git-dir=" + w.server.Path("r")}, args...)...)
}

// push adds a commit to a branch of the remote, and returns its ID.
func (w *world) push(branch string) string {
	w.t.Helper()
	id, err := gitserver.Commit(w.server.Path("r"), branch, gitserver.Change{Path: "pushed", Content: w.clock().String() + branch})
	if err != nil {
		w.t.Fatal(err)
	}
	return id
}

// pushAttributes makes a commit whose tree can't stand on the one before.
func (w *world) pushAttributes(branch, attributes string) {
	w.t.Helper()
	if _, err := gitserver.Commit(w.server.Path("r"), branch, gitserver.Change{Path: ".gitattributes", Content: attributes}); err != nil {
		w.t.Fatal(err)
	}
}

// asked says what arrived at the remote since the last reset.
func (w *world) asked() (lsRefs, fetches, clones int) {
	s := w.server.Stats("r")
	return s.LsRefs, s.Fetches, s.Clones
}

// run runs git in dir as uid, as a container would.
func run(t *testing.T, dir string, uid int, args ...string) string {
	t.Helper()
	return strings.TrimSpace(testgit.GitAs(t, uid, dir, args...))
}
