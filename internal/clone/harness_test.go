package clone

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/repo/checkout"
	"github.com/helmdeck/repos/internal/volume"
	"github.com/helmdeck/repos/tests/testdir"
	"github.com/helmdeck/repos/tests/testgit"
	"github.com/helmdeck/repos/tests/testworld"
	"github.com/helmdeck/repos/tests/wait"
)

// TestMain lets the test binary be the program that checks out.
func TestMain(m *testing.M) {
	checkout.ServeJob()
	os.Exit(m.Run())
}

// world is a testworld.World with a Manager.
type world struct {
	*testworld.World
	data testworld.Data
	m    *Manager
	git  git.Config // more settings of git, from the next start on
}

// newWorld makes a world with the git of a root filesystem, or with the machine's if system
// is empty.
func newWorld(t *testing.T, system string) *world {
	t.Helper()
	w := &world{World: testworld.New(t, system)}
	w.start("boot 1")
	return w
}

// start opens the data directory, as a plugin that starts in a boot.
func (w *world) start(boot string) {
	w.T.Helper()
	d := w.Open(boot, w.git)
	d.Work.Go(d.Layers.Run)
	m, err := NewManager(Config{
		Root: w.Root, DB: d.DB, Trash: d.Trash, Log: d.Log, Now: w.Now, Layers: d.Layers, Work: d.Work, Git: d.Git,
	}, d.State)
	if err != nil {
		w.T.Fatal(err)
	}
	d.Work.Go(m.Measure)
	w.data, w.m = d, m
}

// restart closes the data directory and opens it again.
func (w *world) restart(boot string) {
	w.T.Helper()
	w.data.Close()
	w.start(boot)
}

// spec returns the Spec of a volume of the repository with these options.
func (w *world) spec(options ...string) Spec {
	w.T.Helper()
	return SpecOf(w.Options(options...))
}

// asked returns the Spec of a volume that was created now, and has an answer of the remote.
func (w *world) asked(options ...string) Spec {
	w.T.Helper()
	s := w.spec(options...)
	s.Since = Since{Asked: w.clone(s).Asked(), At: w.Now(), For: time.Minute}
	if err := w.clone(s).Ask(w.T.Context(), s); err != nil {
		w.T.Fatal(err)
	}
	return s
}

func (w *world) clone(s Spec) *Clone { return w.m.Get(volume.DefaultSubject, s.URL) }

// dirOf returns the directory of a layer; for the empty ID that of all layers of the kind.
func (c *Clone) dirOf(k meta.Kind, id string) string { return c.layers.Lower(k, id)[0] }

// collected waits until all layers that nothing needs are gone.
func (w *world) collected(c *Clone) {
	w.T.Helper()
	wait.For(w.T, "the end of the layers that nothing needs", func() error {
		info, _ := c.Info()
		for _, l := range info.Layers {
			if l.Need == "" {
				return fmt.Errorf("%+v", l)
			}
		}
		return wait.Equal(len(info.Layers), len(testdir.Names(w.T, c.dirOf(meta.Tree, "")))+len(testdir.Names(w.T, c.dirOf(meta.GitLayer, ""))))
	})
}

// prepare prepares a checkout. An error ends the test.
func (w *world) prepare(s Spec) *Checkout {
	w.T.Helper()
	co, err := w.clone(s).Prepare(w.T.Context(), s)
	if err != nil {
		w.T.Fatalf("prepare %q: %v", s.Ref, err)
	}
	return co
}

// remote runs git on the remote's repository.
func (w *world) remote(args ...string) string {
	w.T.Helper()
	return run(w.T, "", 0, append([]string{"--git-dir=" + w.Server.Path("r")}, args...)...)
}

// pushAttributes adds a commit whose tree can't be built on the one before.
func (w *world) pushAttributes(attributes string) {
	w.T.Helper()
	w.Commit("main", gitserver.Change{Path: ".gitattributes", Content: attributes})
}

// requests returns the number of requests to the remote since the last reset.
func (w *world) requests() (lsRefs, fetches, clones int) {
	s := w.Server.Stats("r")
	return s.LsRefs, s.Fetches, s.Clones
}

// run runs git in dir as uid, as a container would.
func run(t *testing.T, dir string, uid int, args ...string) string {
	t.Helper()
	return strings.TrimSpace(testgit.GitAs(t, uid, dir, args...))
}
