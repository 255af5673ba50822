// Package frontend has a second front end besides Docker's. It publishes volumes at paths, like an orchestrator's
// node agent. It uses only the verbs of the core, and shows that they have set semantics: publishing twice has the effect of once.
package frontend

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/internal/repo/checkout"
	"github.com/helmdeck/repos/internal/verbs"
	"github.com/helmdeck/repos/tests/testdir"
	"github.com/helmdeck/repos/tests/testgit"
	"github.com/helmdeck/repos/tests/testverbs"
)

func TestMain(m *testing.M) {
	checkout.ServeJob()
	os.Exit(m.Run())
}

// node publishes volumes at paths. The path is the lease.
type node struct{ verbs.Verbs }

// publish mounts a volume at a path. Publishing it there again is not an error, because an earlier call
// may have been interrupted between its two steps.
func (n node) publish(ctx context.Context, volume, target string) error {
	l := verbs.Lease{Volume: volume, ID: target}
	m, err := n.Acquire(ctx, l)
	if err != nil {
		return err
	}
	mounted, err := mountinfo.Mounted(target)
	if err == nil && !mounted {
		err = unix.Mount(m.Path, target, "", unix.MS_BIND|unix.MS_REC, "")
	}
	if err != nil {
		return errors.Join(err, n.Release(ctx, l))
	}
	return nil
}

// unpublish undoes publish. A path where nothing is published is not an error.
func (n node) unpublish(ctx context.Context, volume, target string) error {
	if err := unix.Unmount(target, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) {
		return err
	}
	return n.Release(ctx, verbs.Lease{Volume: volume, ID: target})
}

// world is a node with a remote and target paths.
type world struct {
	node
	t       *testing.T
	data    *testverbs.World
	server  *gitserver.Server
	targets []string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, data: testverbs.New(t), server: testgit.Remote(t, "r", gitserver.Spec{Seed: 1, Files: 20})}
	w.node = node{w.data.Volumes}
	for _, name := range []string{"a", "b", "c"} {
		target := filepath.Join(testdir.New(t, "frontend"), name)
		if err := os.Mkdir(target, 0o755); err != nil {
			t.Fatal(err)
		}
		w.targets = append(w.targets, target)
	}
	return w
}

func (w *world) create(name, mode string) {
	w.t.Helper()
	options := map[string]string{"repo": w.server.URL("r"), "ref": "main", "mode": mode}
	for range 2 {
		if err := w.Create(w.t.Context(), name, options); err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *world) ok(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// sees lists which of the targets show a file of the repository.
func (w *world) sees(name string) (list []string) {
	for _, target := range w.targets {
		if _, err := os.Lstat(filepath.Join(target, name)); err == nil {
			list = append(list, filepath.Base(target))
		}
	}
	return list
}

func (w *world) wantSees(name string, want ...string) {
	w.t.Helper()
	if got := w.sees(name); !slices.Equal(got, want) {
		w.t.Errorf("%s is seen at %q, want %q", name, got, want)
	}
}

// TestPublishTwiceIsOnce checks that publishing a volume twice at a path makes one lease and one mount, and that one
// unpublish ends both.
func TestPublishTwiceIsOnce(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"private", "shared", "keep"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.create("v", mode)
			for range 2 {
				w.ok(w.publish(t.Context(), "v", w.targets[0]))
			}
			w.ok(w.publish(t.Context(), "v", w.targets[1]))
			w.wantSees("README.md", "a", "b")
			w.ok(os.WriteFile(filepath.Join(w.targets[0], "mine"), []byte("x"), 0o644))
			want := []string{"a", "b"}
			if mode == "private" {
				want = want[:1]
			}
			w.wantSees("mine", want...)
			if got := w.Leases("v"); len(got) != 2 || !slices.Contains(got, w.targets[0]) || !slices.Contains(got, w.targets[1]) {
				t.Errorf("leases %q, want both targets, each once", got)
			}
			if err := w.Remove(t.Context(), "v"); verbs.KindOf(err) != verbs.InUse {
				t.Errorf("Remove: %v (%s), want in use", err, verbs.KindOf(err))
			}
			for range 2 {
				w.ok(w.unpublish(t.Context(), "v", w.targets[0]))
			}
			w.wantSees("README.md", "b")
			w.ok(w.unpublish(t.Context(), "v", w.targets[1]))
			if got := w.Leases("v"); len(got) != 0 {
				t.Errorf("leases %q, want none", got)
			}
			for range 2 {
				w.ok(w.Remove(t.Context(), "v"))
			}
			if got := w.List(); len(got) != 0 {
				t.Errorf("volumes %+v, want none", got)
			}
		})
	}
}

// TestPublishAtOnce checks that concurrent publish calls for one path have the effect of one call. The same is true of
// unpublish.
func TestPublishAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create("v", "private")
	l := verbs.Lease{Volume: "v", ID: "one"}
	mounts := make(chan verbs.Mount)
	const n = 8
	for range n {
		go func() {
			m, err := w.Acquire(t.Context(), l)
			if err != nil {
				t.Error(err)
			}
			mounts <- m
		}()
	}
	first := 0
	path := ""
	for range n {
		m := <-mounts
		if !m.Again {
			first++
		}
		if path != "" && m.Path != path {
			t.Errorf("one lease is mounted at %q and %q", path, m.Path)
		}
		path = m.Path
	}
	if got := w.Leases("v"); first != 1 || !slices.Equal(got, []string{"one"}) {
		t.Errorf("%d calls made the lease, leases %q; want one of each", first, got)
	}
	done := make(chan error)
	for range n {
		go func() { done <- w.Release(t.Context(), l) }()
	}
	for range n {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if got := w.Leases("v"); len(got) != 0 {
		t.Errorf("leases %q, want none", got)
	}
}

// TestPublishAfterRestart checks that leases survive the process: publish finds them, and one unpublish ends them.
func TestPublishAfterRestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create("v", "private")
	w.ok(w.publish(t.Context(), "v", w.targets[0]))
	w.ok(os.WriteFile(filepath.Join(w.targets[0], "mine"), []byte("x"), 0o644))
	w.data.Close()
	w.data.Start(w.data.Root)
	w.node = node{w.data.Volumes}
	w.ok(w.publish(t.Context(), "v", w.targets[0]))
	w.wantSees("mine", "a")
	if got := w.Leases("v"); !slices.Equal(got, w.targets[:1]) {
		t.Errorf("leases %q, want %q", got, w.targets[:1])
	}
	w.ok(w.unpublish(t.Context(), "v", w.targets[0]))
	w.ok(w.Remove(t.Context(), "v"))
}

// TestPublishInterrupted checks that after a process ended between the two steps of publish, the next call does the missing
// step. A publish whose bind fails leaves no lease.
func TestPublishInterrupted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create("v", "private")
	_, err := w.Acquire(t.Context(), verbs.Lease{Volume: "v", ID: w.targets[0]})
	w.ok(err)
	for range 2 {
		w.ok(w.publish(t.Context(), "v", w.targets[0]))
		w.wantSees("README.md", "a")
	}
	if err := w.publish(t.Context(), "v", filepath.Join(w.targets[1], "missing")); !errors.Is(err, unix.ENOENT) {
		t.Errorf("publish at a path that does not exist: %v", err)
	}
	if got := w.Leases("v"); !slices.Equal(got, w.targets[:1]) {
		t.Errorf("leases %q, want %q", got, w.targets[:1])
	}
	w.ok(w.unpublish(t.Context(), "v", w.targets[0]))
}

// TestKinds checks the kinds of errors, from which a protocol derives its error codes.
func TestKinds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.data.Close()
	w.data.MaxLeases = 1
	w.data.Start(w.data.Root)
	w.node = node{w.data.Volumes}
	w.create("v", "private")
	url := w.server.URL("r")
	expired, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := w.Acquire(t.Context(), verbs.Lease{Volume: "v", ID: "1"})
	w.ok(err)
	for name, tt := range map[string]struct {
		want verbs.Kind
		do   func() error
	}{
		"a name that is no name":   {verbs.Invalid, func() error { return w.Create(t.Context(), "", nil) }},
		"an unknown option":        {verbs.Invalid, func() error { return w.Create(t.Context(), "x", map[string]string{"colour": "red"}) }},
		"an unknown checkpoint":    {verbs.Invalid, func() error { return w.Create(t.Context(), "x", map[string]string{"from": "0123456789abcdef"}) }},
		"other options":            {verbs.Exists, func() error { return w.Create(t.Context(), "v", map[string]string{"repo": url, "ref": "other"}) }},
		"an unknown ref":           {verbs.NotFound, func() error { return w.Create(t.Context(), "x", map[string]string{"repo": url, "ref": "nowhere"}) }},
		"an unknown repository":    {verbs.NotFound, func() error { return w.Create(t.Context(), "x", map[string]string{"repo": w.server.URL("none")}) }},
		"a closed port":            {verbs.Denied, func() error { return w.Create(t.Context(), "x", map[string]string{"repo": "http://127.0.0.1:1/r"}) }},
		"Get of an unknown one":    {verbs.NotFound, func() error { _, err := w.Get("x"); return err }},
		"Acquire of an unknown":    {verbs.NotFound, func() error { _, err := w.Acquire(t.Context(), verbs.Lease{Volume: "x", ID: "1"}); return err }},
		"Remove of a leased one":   {verbs.InUse, func() error { return w.Remove(t.Context(), "v") }},
		"more leases than allowed": {verbs.Exhausted, func() error { _, err := w.Acquire(t.Context(), verbs.Lease{Volume: "v", ID: "2"}); return err }},
		"a lease ID with a #":      {verbs.Invalid, func() error { _, err := w.Acquire(t.Context(), verbs.Lease{Volume: "v", ID: "1#2"}); return err }},
		"a caller that has gone":   {verbs.Canceled, func() error { _, err := w.Acquire(expired, verbs.Lease{Volume: "v", ID: "1"}); return err }},
	} {
		if err := tt.do(); err == nil || verbs.KindOf(err) != tt.want {
			t.Errorf("%s: %v is %q, want %q", name, err, verbs.KindOf(err), tt.want)
		}
	}
}
