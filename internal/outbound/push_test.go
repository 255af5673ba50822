package outbound

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"

	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/quarantine"
	"github.com/helmdeck/repos/internal/volume"
	"github.com/helmdeck/repos/internal/work"
)

// opened is a Workspace whose .git is missing, so that it is refused once it is open.
type opened struct {
	ctx    context.Context
	root   *os.File
	layer  string
	closed chan<- string
}

func (o opened) Record() meta.Workspace {
	return meta.Workspace{Volume: "v", Options: map[string]string{"subject": "team", "repo": "https://h/r"}}
}
func (o opened) Root() *os.File           { return o.root }
func (o opened) GitLayer() string         { return o.layer }
func (o opened) Context() context.Context { return o.ctx }
func (o opened) Close() error {
	o.closed <- "closed"
	return o.root.Close()
}

// newPusher returns a Pusher. Each of its calls of Open sends a word to begun, and then waits for one
// from goOn.
func newPusher(t *testing.T, pushed func(Result, error)) (p *Pusher, begun chan string, goOn chan bool) {
	t.Helper()
	group := work.NewGroup()
	t.Cleanup(group.Close)
	log := logrus.New()
	log.SetOutput(io.Discard)
	layer := t.TempDir()
	for name, content := range map[string]string{"HEAD": strings.Repeat("a", 40), "objects/pack/p.pack": ""} {
		path := filepath.Join(layer, ".git", name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	begun, goOn = make(chan string, 100), make(chan bool)
	return New(Config{
		Work: group, Log: log,
		Subject: func(string) volume.Subject { return "team" },
		Open: func(ctx context.Context, _ string) (Workspace, error) {
			begun <- "opened"
			<-goOn
			root, err := os.Open(t.TempDir())
			return opened{ctx, root, layer, begun}, err
		},
		Pushed: func(_ context.Context, r Result, err error) { pushed(r, err) },
	}), begun, goOn
}

// TestPushEndsBeforeItsCallerReturns: a caller that has given up still says what became of the push,
// which nothing else would report.
func TestPushEndsBeforeItsCallerReturns(t *testing.T) {
	t.Parallel()
	var got Result
	var gotErr error
	p, begun, goOn := newPusher(t, func(r Result, err error) { got, gotErr = r, err })
	ctx, hangUp := context.WithCancel(t.Context())
	returned := make(chan error)
	go func() {
		_, err := p.Push(ctx, Request{Workspace: "w"}, func(string, int64, int64) {})
		returned <- err
	}()
	<-begun
	hangUp()
	goOn <- true
	err := <-returned
	if refused, ok := errors.AsType[*quarantine.Refusal](err); !ok || refused.Why != quarantine.Unusable {
		t.Errorf("got %v", err)
	}
	if got.Volume != "v" || got.Subject != "team" || got.Repo != "https://h/r" || gotErr != err {
		t.Errorf("reported %+v, %v", got, gotErr)
	}
	if word := <-begun; word != "closed" {
		t.Errorf("got %q", word)
	}
}

// TestWaitingPushHoldsNoWorkspace: of the pushes of one subject one workspace is open, because an
// open one can't be evicted, restored or reaped.
func TestWaitingPushHoldsNoWorkspace(t *testing.T) {
	t.Parallel()
	p, begun, goOn := newPusher(t, func(Result, error) {})
	ended, waiting := make(chan error), make(chan bool)
	const pushes = 5
	for range pushes {
		go func() {
			_, err := p.Push(t.Context(), Request{Workspace: "w"}, func(phase string, _, _ int64) { waiting <- phase == "waiting" })
			ended <- err
		}()
	}
	for range pushes {
		<-waiting
	}
	for i := range pushes {
		for _, want := range []string{"opened", "closed"} {
			if got := <-begun; got != want {
				t.Errorf("push %d: got %q, want %q", i, got, want)
			}
			if want == "opened" {
				goOn <- true
			}
		}
		<-ended
	}
	// Without a turn, a push ends with its caller.
	unlock, err := p.subjects.Lock(t.Context(), "team")
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	ctx, hangUp := context.WithCancel(t.Context())
	go func() { <-waiting; hangUp() }()
	if _, err := p.Bundle(ctx, "w", "", func(string, int64, int64) { waiting <- true }); err == nil || len(begun) > 0 {
		t.Errorf("got %v, and %d workspaces are open", err, len(begun))
	}
}
