package outbound

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/outbound/quarantine"
	"github.com/helmdeck/repos/internal/volume"
	"github.com/helmdeck/repos/internal/work"
)

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
		Subject: func(id string) volume.Subject { return volume.Subject("subject of " + id) },
		Open: func(ctx context.Context, _ string) (Workspace, error) {
			begun <- "opened"
			<-goOn
			root, err := os.Open(t.TempDir())
			// Its .git is missing, so that it is refused once it is open.
			rec := meta.Workspace{Volume: "v", Options: map[string]string{"subject": "team", "repo": "https://h/r"}}
			return Workspace{rec, root, layer, ctx, func() error {
				begun <- "closed"
				return root.Close()
			}}, err
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
	synctest.Test(t, func(t *testing.T) { // so that no turn becomes overdue
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
		turn, err := p.turns.Acquire(work.WithOwner(t.Context(), work.Owner{Subject: string(p.config.Subject("w"))}), work.Fetch, false)
		if err != nil {
			t.Fatal(err)
		}
		defer turn.Release()
		ctx, hangUp := context.WithCancel(t.Context())
		go func() { <-waiting; hangUp() }()
		if _, err := p.Bundle(ctx, Request{Workspace: "w"}, func(string, int64, int64) { waiting <- true }); err == nil || len(begun) > 0 {
			t.Errorf("got %v, and %d workspaces are open", err, len(begun))
		}
	})
}

// TestPushesThatLastGiveWay: subjects whose pushes never end delay those of others, and their own, by a
// second. A subject has three of them at a time.
func TestPushesThatLastGiveWay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, begun, goOn := newPusher(t, func(Result, error) {})
		var pushes sync.WaitGroup
		push := func(id string) {
			pushes.Go(func() { p.Push(t.Context(), Request{Workspace: id}, func(string, int64, int64) {}) })
		}
		for i := range turns.Slots {
			push(fmt.Sprint("hostile ", i))
			push(fmt.Sprint("hostile ", i))
		}
		synctest.Wait()
		if got := len(begun); got != turns.Slots {
			t.Errorf("%d pushes run at once, want %d", got, turns.Slots)
		}
		began := time.Now()
		push("honest")
		for range turns.Slots + 1 + turns.AgainOfAll { // the second push of each hostile subject begins too
			<-begun
		}
		if waited := time.Since(began); waited != turns.Quantum {
			t.Errorf("another subject's push, and the second ones, waited %v, want %v", waited, turns.Quantum)
		}
		push("honest") // all subjects together have no more second pushes
		push("other")
		<-begun
		time.Sleep(time.Hour) // on the test's clock
		synctest.Wait()
		if len(begun) > 0 {
			t.Errorf("subjects have %d pushes too many", len(begun))
		}
		go func() {
			for {
				select {
				case goOn <- true:
				case <-begun:
				case <-t.Context().Done():
					return
				}
			}
		}()
		pushes.Wait()
	})
}

// TestPushesOfOneSubject: pushes of a subject that never end delay its next ones by a second, until it has
// three.
func TestPushesOfOneSubject(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, begun, goOn := newPusher(t, func(Result, error) {})
		began := time.Now()
		var pushes sync.WaitGroup
		for range turns.Again + 2 {
			pushes.Go(func() { p.Push(t.Context(), Request{Workspace: "w"}, func(string, int64, int64) {}) })
		}
		for n := range turns.Again + 1 {
			<-begun
			if waited, want := time.Since(began), time.Duration(n)*turns.Quantum; waited != want {
				t.Errorf("push %d waited %v, want %v", n, waited, want)
			}
		}
		time.Sleep(time.Hour) // on the test's clock
		synctest.Wait()
		if len(begun) > 0 {
			t.Errorf("the subject has %d pushes too many", len(begun))
		}
		goOn <- true // one ends, and the last one begins
		if got := []string{<-begun, <-begun}; got[0] != "closed" || got[1] != "opened" {
			t.Errorf("got %q", got)
		}
		for range turns.Again + 1 {
			goOn <- true
		}
		pushes.Wait()
	})
}

// TestStalledTurnsEnd: a remote that takes less than 1 MiB in 30 s, or a reader of a bundle in 10 s, ends the push, or the
// reading, when others wait for the turn.
func TestStalledTurnsEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		turns := work.NewScheduler([3]work.Limits{work.Fetch: {Slots: 1, PerSubject: 1, Quantum: time.Second}})
		turn := func(subject string) *work.Slot {
			slot, err := turns.Acquire(work.WithOwner(t.Context(), work.Owner{Subject: subject}), work.Fetch, false)
			if err != nil {
				t.Error(err)
			}
			return slot
		}
		// next waits for a turn, and returns it when the one that others have is ended.
		next := func() <-chan *work.Slot {
			granted := make(chan *work.Slot, 1)
			go func() { granted <- turn("other") }()
			synctest.Wait()
			return granted
		}
		src, failed := &source{turn: turn("slow")}, errors.New("git was ended")
		granted, began := next(), time.Now()
		err := src.outside(t.Context(), func(ctx context.Context) error {
			time.Sleep(10 * time.Second) // on the test's clock
			src.turn.Moved(1 << 20)
			<-ctx.Done()
			return failed
		})
		if stalled, ok := err.(*work.StalledError); !ok || time.Since(began) != 10*time.Second+stalledPush || !strings.Contains(stalled.Error(), "others waited for its turn") {
			t.Errorf("a push ended with %v after %v", err, time.Since(began))
		}
		src.turn.Release()
		(<-granted).Release()
		src.turn = turn("slow")
		if err := src.outside(t.Context(), func(context.Context) error { return failed }); err != failed {
			t.Errorf("a push that failed by itself: %v", err)
		}
		b := &Bundle{content: strings.NewReader(strings.Repeat("x", 100)), turn: src.turn, expires: time.Now().Add(bundleLife)}
		b.ctx, b.end = b.turn.Outside(t.Context(), stalledReader)
		granted, began = next(), time.Now()
		if n, err := b.Read(make([]byte, 10)); n != 10 || err != nil {
			t.Errorf("read %d bytes, %v", n, err)
		}
		<-b.Context().Done()
		if _, err := b.Read(make([]byte, 10)); !errors.Is(err, context.Canceled) || time.Since(began) != stalledReader {
			t.Errorf("a slow reader got %v after %v", err, time.Since(began))
		}
		b.end()
		src.turn.Release()
		(<-granted).Release()
	})
}
