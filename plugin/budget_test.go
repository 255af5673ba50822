package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/janitor"
	"github.com/helmdeck/repos/tests/wait"
)

// budget is a plugin with an adjustable clock, and a remote.
type budget struct {
	*process
	server *gitserver.Server
	data   string
	ahead  atomic.Int64 // how far the plugin's clock is ahead of the machine's
	idle   bool         // only the test starts sweeps
	admin  *api.Client
}

// newBudget starts the plugin with settings, as name=value. If idle is set, only the test starts
// sweeps.
func newBudget(t *testing.T, idle bool, settings ...string) *budget {
	t.Helper()
	b := &budget{server: remote(t), data: scratch(t), idle: idle}
	b.start(t, settings...)
	return b
}

// start starts the plugin with these settings. It stops a running plugin first.
func (b *budget) start(t *testing.T, settings ...string) {
	t.Helper()
	if b.process != nil {
		b.stop()
	}
	b.process = startWith(t, b.data, func(at *places) {
		at.idle = b.idle
		at.now = func() time.Time { return time.Now().Add(time.Duration(b.ahead.Load())) }
	}, append([]string{"SWEEP_INTERVAL=0", "MAX_SIZE=0"}, settings...)...)
	b.admin = api.Dial(filepath.Join(filepath.Dir(b.at.socket), adminSocket))
}

// pass sets the plugin's clock forward.
func (b *budget) pass(d time.Duration) { b.ahead.Add(int64(d)) }

// use creates a volume with a clone of the subject, mounts it, writes to it if write is set, and
// unmounts it.
func (b *budget) use(subject string, write bool) {
	b.t.Helper()
	b.create(subject, map[string]string{"repo": b.server.URL("sample"), "subject": subject, "cache": "off"})
	dir := b.mount(subject, "1")
	if write {
		b.write(dir)
	}
	b.unmount(subject, "1")
}

func (b *budget) write(dir string) {
	b.t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "work"), []byte("work"), 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// settled waits until all sizes are measured and no work goes on, and returns the clones by subject.
func (b *budget) settled() map[string]api.Clone {
	b.t.Helper()
	clones := make(map[string]api.Clone)
	b.poll(func() error {
		list, err := b.admin.Clones(b.t.Context(), api.Filter{})
		if err != nil {
			return err
		}
		clear(clones)
		for _, c := range list {
			clones[c.Subject] = c
			if c.Size.Bytes == 0 || c.Classes.Tree.Bytes == 0 || c.Classes.GitLayer.Bytes == 0 || c.Held == janitor.Pending.String() || c.Held == janitor.Busy.String() {
				return fmt.Errorf("not settled: %+v", c)
			}
		}
		checkpoints, err := b.admin.Checkpoints(b.t.Context(), api.Filter{})
		if i := slices.IndexFunc(checkpoints, func(d api.Checkpoint) bool { return d.Bytes == nil }); i >= 0 {
			return fmt.Errorf("not measured: %+v", checkpoints[i])
		}
		return err
	})
	return clones
}

func (b *budget) poll(check func() error) {
	b.t.Helper()
	wait.For(b.t, "the plugin to settle", check)
}

// sweep sweeps, and returns the evictions as `reason kind subject`.
func (b *budget) sweep() []string {
	b.t.Helper()
	r, err := b.admin.Sweep(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	if r.Failed > 0 {
		b.t.Errorf("the sweep had failures: %+v", r)
	}
	return inWords(r.Evicted)
}

func inWords(list []api.Eviction) []string {
	words := []string{}
	for _, e := range list {
		words = append(words, fmt.Sprint(e.Reason, " ", e.Kind, " ", e.Subject))
	}
	return words
}

func (b *budget) expect(what string, got []string, want ...string) {
	b.t.Helper()
	if !slices.Equal(got, want) {
		b.t.Errorf("%s: got %q, want %q", what, got, want)
	}
}
