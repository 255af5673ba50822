//go:build quota

package quota

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/disk/project"
	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/tests/daemon"
	"github.com/helmdeck/repos/tests/testdir"
	"github.com/helmdeck/repos/tests/testgit"
	"github.com/helmdeck/repos/tests/wait"
)

func TestMain(m *testing.M) {
	if capabilities := os.Getenv("QUOTA_CONTAINER"); capabilities != "" {
		var err error
		if path, ok := strings.CutPrefix(os.Args[1], "setproject "); ok {
			err = setProject(path, 0)
		} else if path, ok := strings.CutPrefix(os.Args[1], "store "); ok {
			err = store(path, 12<<20)
		} else if os.Getenv("QUOTA_REMAPPED") != "" {
			err = enterRemapped(os.Args[1])
		} else {
			err = enter(capabilities, os.Args[1])
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	flag.Parse()
	os.Exit(m.Run())
}

const mib = 1 << 20

// ids are the plugin's.
var ids = project.Range{First: 1200000000, Last: 1200065535}

// world is a run of the plugin, and a remote with the repository "small".
type world struct {
	*daemon.Daemon
	t      *testing.T
	server *gitserver.Server
	quotas *project.Quotas
}

func newWorld(t *testing.T, env ...string) *world {
	t.Helper()
	w := &world{t: t, server: testgit.Remote(t, "small", gitserver.Spec{Seed: 1, Files: 20, Commits: 1, Changes: 2})}
	dir := testdir.New(t, "q")
	c := daemon.Config{Program: "/helmdeck-repos", Dir: dir, Args: []string{"-start-wait", "1ms"}, Env: env}
	w.start(c)
	t.Cleanup(func() {
		w.must(w.Stop())
		w.must(w.quotas.Close())
		if t.Failed() {
			t.Log(w.Log())
		}
	})
	var err error
	w.quotas, err = project.Open("/var/tmp", ids)
	w.must(err)
	w.must(w.quotas.Supported())
	return w
}

// addLarge makes the repository "large", with a file of 12 MiB.
func (w *world) addLarge() {
	w.t.Helper()
	work := testdir.New(w.t, "large")
	testgit.Git(w.t, work, "init", "-q", "-b", "main", ".")
	w.must(os.WriteFile(filepath.Join(work, "large"), bytes.Repeat([]byte("text\n"), 12*mib/5), 0o644))
	testgit.Git(w.t, work, "add", ".")
	testgit.Git(w.t, work, "commit", "-q", "-m", "large")
	testgit.Git(w.t, work, "clone", "-q", "--bare", ".", w.server.Path("large"))
}

func (w *world) start(c daemon.Config) {
	w.t.Helper()
	var err error
	if w.Daemon, err = daemon.Start(w.t, c); err != nil {
		w.t.Fatal(err)
	}
}

// restart kills the plugin, or stops it, and starts it again.
func (w *world) restart(kill bool) {
	w.t.Helper()
	if kill {
		w.must(w.Kill())
	} else {
		w.must(w.Stop())
	}
	w.start(w.Config)
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// create creates a volume of a repository; options are name=value.
func (w *world) create(name, repo string, options ...string) {
	w.t.Helper()
	o := map[string]string{"repo": w.server.URL(repo)}
	for _, option := range options {
		key, value, _ := strings.Cut(option, "=")
		o[key] = value
	}
	w.must(w.Create(context.Background(), name, o))
}

// mount mounts a volume for a container.
func (w *world) mount(name, id string) container {
	w.t.Helper()
	dir, err := w.Mount(context.Background(), name, id)
	if err != nil {
		w.t.Fatal(err)
	}
	return container{t: w.t, dir: dir}
}

func (w *world) unmount(name, id string) {
	w.t.Helper()
	w.must(w.Unmount(context.Background(), name, id))
}

// end unmounts and removes a volume.
func (w *world) end(name, id string) {
	w.t.Helper()
	w.unmount(name, id)
	w.must(w.Remove(context.Background(), name))
}

// clear removes all that is unused, and waits until no project of the range has a limit or a file.
func (w *world) clear() {
	w.t.Helper()
	w.must(wait.Until(w.t, func() error {
		if _, err := w.Admin.Prune(context.Background(), api.Prune{All: true, Checkpoints: true}); err != nil {
			return wait.Final(err)
		}
		list, err := w.Admin.Workspaces(context.Background(), api.Filter{})
		if err != nil || len(list) > 0 {
			return fmt.Errorf("%d workspaces are left: %w", len(list), err)
		}
		return nil
	}))
	w.must(w.AwaitEmptyTrash())
	w.clean()
}

// clean waits until no project of the range has a limit or a file.
func (w *world) clean() {
	w.t.Helper()
	w.must(wait.Until(w.t, func() error {
		left, err := w.quotas.Records()
		if err != nil || len(left) > 0 {
			return fmt.Errorf("projects %v are left: %w", left, err)
		}
		return nil
	}))
}

// space returns the size of a workspace's filesystem as df shows it, and what is used of it.
func (w *world) space(c container) (size, used int64) {
	w.t.Helper()
	var st unix.Statfs_t
	w.must(unix.Statfs(c.dir, &st))
	return int64(st.Blocks) * st.Bsize, int64(st.Blocks-st.Bfree) * st.Bsize
}

// full fails the test unless a workspace of so many bytes holds as many, to one percent.
func (w *world) full(c container, bytes int64) {
	w.t.Helper()
	size, used := w.space(c)
	if size != bytes || used < bytes*99/100 || used > bytes*101/100 {
		w.t.Errorf("it has %d bytes, and %d are used; want %d", size, used, bytes)
	}
}

// ends fails the test unless a script of a container fails for lack of room.
func (w *world) ends(c container, script string) {
	w.t.Helper()
	out, err := c.run(script)
	if err == nil || !strings.Contains(out, "No space left") && !strings.Contains(out, "Disk quota exceeded") && !strings.Contains(out, "quota") {
		w.t.Errorf("%s: %v, want no room\n%s", script, err, out)
	}
}

// checkpoint waits for one checkpoint, and returns its ID.
func (w *world) checkpoint() (id string) {
	w.t.Helper()
	w.must(wait.Until(w.t, func() error {
		list, err := w.Admin.Checkpoints(context.Background(), api.Filter{})
		if err != nil || len(list) != 1 {
			return fmt.Errorf("%d checkpoints: %w", len(list), err)
		}
		id = list[0].ID
		return nil
	}))
	return id
}

func size(bytes int64) disk.Size { return disk.Size{Bytes: bytes} }

// unnoticed fails the test if the janitor did anything but warn of workspaces that are full.
func (w *world) unnoticed() {
	w.t.Helper()
	events, err := w.Admin.Events(context.Background())
	w.must(err)
	for _, e := range events {
		if e.Reason != "workspace_limit" {
			w.t.Errorf("the janitor: %+v", e)
		}
	}
}
