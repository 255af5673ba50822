package ready

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/helmdeck/repos/internal/clone"
	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/internal/volume"
	"github.com/helmdeck/repos/internal/work"
	"github.com/helmdeck/repos/internal/workspace/warm"
	"github.com/helmdeck/repos/tests/testdir"
	"github.com/helmdeck/repos/tests/wait"
)

// warm warms the world's repository, with options as names and values, and returns the statuses
// that it reported.
func (w *world) warm(ctx context.Context, r WarmRequest, options ...string) (res Warmed, statuses []string, err error) {
	r.Repo = w.Server.URL("r")
	r.Options = make(map[string]string)
	for i := 0; i < len(options); i += 2 {
		r.Options[options[i]] = options[i+1]
	}
	res, err = w.k.Warm(ctx, r, func(p Progress) {
		if statuses = append(statuses, p.Status); p.Objects > p.Total {
			w.T.Errorf("progress %+v", p)
		}
	})
	return res, statuses, err
}

// TestWarm checks that a Mount after Warm waits for its question alone, whatever its options,
// and that the clone counts as used, but not as mounted.
func TestWarm(t *testing.T) {
	t.Parallel()
	for _, options := range [][]string{nil, {"cold", "shallow"}, {"depth", "1"}, {"filter", "blob:none", "sparse", "dir0"}, {"mode", "keep"}} {
		t.Run(fmt.Sprint(options), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			began := w.Now()
			w.Advance(time.Hour)
			res, statuses, err := w.warm(t.Context(), WarmRequest{Ref: "feature/x", Subject: "team a"}, options...)
			if err != nil {
				t.Fatal(err)
			}
			mounted := append([]string{"ref", "feature/x", "subject", "team a", "uid", "7"}, options...)
			o := w.Options(mounted...)
			c := w.clones.Get(o.Subject, o.Repo)
			info, ok := c.Info()
			if !ok || info.Mounted || !info.Used.After(began) || len(c.Recent()) > 0 {
				t.Errorf("the clone is %+v", info)
			}
			if want := (Warmed{Clone: c.Key, Subject: "team a", Repo: o.Repo.Normalized(), Ref: "feature/x", Commit: res.Commit, Size: res.Size}); !reflect.DeepEqual(res, want) || len(statuses) == 0 {
				t.Errorf("got %+v, want %+v; reported %q", res, want, statuses)
			}
			w.wantReady(res.Commit, mounted...)
		})
	}
}

// TestWarmAgain checks that what was warmed already is asked for once more, and fetched and built
// only if something was pushed.
func TestWarmAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i := range 3 {
		want := ""
		if i == 2 {
			want = w.Push("main")
		}
		w.Server.Reset()
		w.Advance(time.Hour)
		res, _, err := w.warm(t.Context(), WarmRequest{Ref: "main"})
		if err != nil || want != "" && res.Commit != want {
			t.Fatalf("got %+v, %v, want %s", res, err, want)
		}
		s := w.Server.Stats("r")
		if fetched := s.Fetches > 0; fetched != (i != 1) || s.LsRefs != 1 {
			t.Errorf("time %d: asked the remote %+v", i, s)
		}
		c := w.clones.Lookup(res.Clone)
		if info, _ := c.Info(); w.Now().Sub(info.Used) > time.Minute {
			t.Errorf("time %d: used at %v, now is %v", i, info.Used, w.Now())
		}
	}
}

// TestWarmStates checks that the states of the warm paths are those of the request's own options, and that a failure to
// look for them is one of Warm.
func TestWarmStates(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	fail := errors.New("broken")
	w.k.config.States = func(_ context.Context, o volume.Options, co *clone.Checkout) (list []warm.State, err error) {
		for _, path := range o.Warm.Paths() {
			list = append(list, warm.State{Path: path, Head: co.Tree.Commit})
		}
		if o.WarmExact {
			return nil, fail
		}
		return list, nil
	}
	for _, path := range []string{"", "nm", "dist"} {
		res, _, err := w.warm(t.Context(), WarmRequest{Ref: "main"}, "warm", path)
		want := []warm.State{{Path: path, Head: res.Commit}}
		if path == "" {
			want = nil
		}
		if err != nil || !reflect.DeepEqual(res.States, want) {
			t.Errorf("%q: %+v, %v, want %+v", path, res.States, err, want)
		}
	}
	if _, _, err := w.warm(t.Context(), WarmRequest{Ref: "main"}, "warm", "nm", "warm_files", "x", "warm_exact", "true"); !errors.Is(err, fail) {
		t.Errorf("got %v", err)
	}
}

func TestWarmRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, tt := range []struct {
		r       WarmRequest
		options []string
		want    string
	}{
		{WarmRequest{Ref: "main"}, []string{"ref", "other"}, `"ref": "other" is given twice`},
		{WarmRequest{Subject: "a"}, []string{"subject", "b"}, `"subject": "b" is given twice`},
		{WarmRequest{}, []string{"from", "0123456789abcdef"}, "can't be warmed"},
		{WarmRequest{}, []string{"nothing", "x"}, `"nothing"`},
		{WarmRequest{Ref: "-x"}, nil, `"ref"`},
	} {
		_, _, err := w.warm(t.Context(), tt.r, tt.options...)
		if _, ok := errors.AsType[*volume.OptionError](err); !ok || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v %q: got %v, want %s", tt.r, tt.options, err, tt.want)
		}
	}
	if _, err := w.k.Warm(t.Context(), WarmRequest{Repo: "ssh://h/r"}, func(Progress) {}); err == nil {
		t.Error("a scheme that is not allowed was warmed")
	}
	if _, _, err := w.warm(t.Context(), WarmRequest{Ref: "unknown"}); err == nil || !strings.Contains(err.Error(), "unknown") {
		t.Errorf("an unknown ref: %v", err)
	}
	if _, _, err := w.warm(t.Context(), WarmRequest{Ref: "main", Options: nil}, "ref", "main"); err != nil {
		t.Errorf("one ref, given twice: %v", err)
	}
}

// sharing returns how many goroutines wait in a function, given its name in stack traces, for
// shared work.
func sharing(function string) (n int) {
	buf := make([]byte, 8<<20)
	for _, stack := range strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		if strings.Contains(stack, "work.Share[") && strings.Contains(stack, function) {
			n++
		}
	}
	return n
}

// TestWarmSeesPush checks that Warm finds what was pushed before it, also while others wait for an answer from before
// the push.
func TestWarmSeesPush(t *testing.T) {
	for _, tt := range []struct {
		name  string
		waits string // where both wait
		other func(w *world) error
	}{
		{"another client", "(*Keeper).Warm(", func(w *world) error {
			_, _, err := w.warm(w.T.Context(), WarmRequest{Ref: "main"})
			return err
		}},
		{"a mount", "(*Remote).ask(", func(w *world) error {
			o := w.Options("ref", "main")
			co, err := w.clones.Get(o.Subject, o.Repo).Prepare(w.T.Context(), clone.SpecOf(o))
			if err == nil {
				co.Release()
			}
			return err
		}},
	} {
		t.Run(tt.name, func(t *testing.T) { // not parallel, because of sharing
			w := newWorld(t)
			w.mount("ref", "main")
			gate := gitserver.NewGate()
			w.Server.Script("r", gitserver.LsRefs, func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
					answer := httptest.NewRecorder() // from before the push
					next.ServeHTTP(answer, r)
					gate.Fault(http.HandlerFunc(func(out http.ResponseWriter, _ *http.Request) {
						maps.Copy(out.Header(), answer.Header())
						out.Write(answer.Body.Bytes())
					})).ServeHTTP(out, r)
				})
			})
			var both sync.WaitGroup
			both.Go(func() {
				if err := tt.other(w); err != nil {
					t.Errorf("the other: %v", err)
				}
			})
			<-gate.Arrived
			commit := w.Push("main")
			both.Go(func() {
				if res, _, err := w.warm(t.Context(), WarmRequest{Ref: "main"}); err != nil || res.Commit != commit {
					t.Errorf("got %s, %v, want %s", res.Commit, err, commit)
				}
			})
			wait.For(t, "both", func() error { return wait.Equal(sharing(tt.waits), 2) })
			close(gate.Open)
			both.Wait()
		})
	}
}

// TestWarmEndsWithItsClient checks that the work of a client that has gone ends, unless another
// client or a Mount wants it.
func TestWarmEndsWithItsClient(t *testing.T) {
	for _, tt := range []struct {
		name  string
		waits string // where the other waits
		other func(ctx context.Context, w *world) error
	}{
		{"alone", "", nil},
		{"another client", "(*Remote).fetch(", func(ctx context.Context, w *world) error {
			_, _, err := w.warm(ctx, WarmRequest{Ref: "main"})
			return err
		}},
		{"a mount", "(*Remote).fetch(", func(ctx context.Context, w *world) error {
			o := w.Options("ref", "main", "uid", "7")
			co, err := w.clones.Get(o.Subject, o.Repo).Prepare(ctx, clone.SpecOf(o))
			if err == nil {
				co.Release()
			}
			return err
		}},
	} {
		t.Run(tt.name, func(t *testing.T) { // not parallel, because of sharing
			w := newWorld(t)
			gate := gitserver.NewGate()
			w.Server.Route("r", gitserver.On(gitserver.Fetch, gate.Fault))
			ctx, goAway := context.WithCancel(t.Context())
			first, second := make(chan error, 1), make(chan error, 1)
			go func() { _, _, err := w.warm(ctx, WarmRequest{Ref: "main"}); first <- err }()
			<-gate.Arrived
			if tt.other != nil {
				go func() { second <- tt.other(t.Context(), w) }()
				wait.For(t, "the other", func() error { return wait.Equal(sharing(tt.waits), 2) })
			}
			goAway()
			if err := <-first; !errors.Is(err, context.Canceled) {
				t.Errorf("the client that went got %v", err)
			}
			if tt.other == nil {
				wait.For(t, "the end of the work", func() error { return wait.Equal(w.data.Work.Shared(), 0) })
				if dirs := testdir.Names(t, w.Root+"/clones"); len(dirs) > 0 {
					t.Errorf("left are %q", dirs)
				}
				w.Server.Route("r")
				if _, _, err := w.warm(t.Context(), WarmRequest{Ref: "main"}); err != nil {
					t.Errorf("the next client: %v", err)
				}
				return
			}
			close(gate.Open)
			if err := <-second; err != nil {
				t.Errorf("the other: %v", err)
			}
			if s := w.Server.Stats("r"); s.Fetches != 1 {
				t.Errorf("fetched %+v", s)
			}
		})
	}
}

// TestWarmMany checks that 20 repositories are warmed at once beside Mounts of others, which
// neither fail nor wait for the end of all.
func TestWarmMany(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mount("ref", "main")
	for i := range 20 {
		if _, err := gitserver.Generate(w.Server.Path(fmt.Sprint("many", i)), gitserver.Spec{Seed: uint64(i), Files: 30}); err != nil {
			t.Fatal(err)
		}
	}
	var warming, mounts sync.WaitGroup
	var mu sync.Mutex
	var keys, statuses []string
	for i := range 20 {
		warming.Go(func() {
			res, err := w.k.Warm(t.Context(), WarmRequest{Repo: w.Server.URL(fmt.Sprint("many", i)), Subject: fmt.Sprint("s", i%3)}, func(p Progress) {
				mu.Lock()
				defer mu.Unlock()
				statuses = append(statuses, p.Status)
			})
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			keys = append(keys, res.Clone)
		})
	}
	for range 3 {
		mounts.Go(func() {
			for range 5 {
				w.mount("ref", "main")
			}
		})
	}
	mounts.Wait()
	warming.Wait()
	slices.Sort(keys)
	if keys = slices.Compact(keys); len(keys) != 20 || !slices.Contains(statuses, waiting) {
		t.Errorf("warmed %d clones, reported %q", len(keys), statuses)
	}
	for _, key := range keys {
		if info, ok := w.clones.Lookup(key).Info(); !ok || len(info.Layers) != 2 || slices.ContainsFunc(info.Layers, func(l clone.LayerInfo) bool { return l.Held }) {
			t.Errorf("clone %s: %+v", key, info)
		}
	}
}

// TestWarmGoesBesideMounts checks that clients that go at any moment never fail a Mount of the
// same checkout, from the first question to the last layer.
func TestWarmGoesBesideMounts(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	t.Parallel()
	w := newWorld(t)
	for round := range 40 {
		subject := fmt.Sprint("s", round)
		ctx, goAway := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() { _, _, _ = w.warm(ctx, WarmRequest{Ref: "main", Subject: subject}) })
		}
		// The moment moves through the whole of the work, some 300 ms.
		timer := time.AfterFunc(time.Duration(round)*8*time.Millisecond, goAway)
		o := w.Options("ref", "main", "subject", subject, "uid", "7")
		for _, delay := range []int{0, round / 2, round} {
			all.Go(func() {
				time.Sleep(time.Duration(delay) * 8 * time.Millisecond)
				mount := work.WithOwner(t.Context(), work.Owner{Name: "a mount", Urgent: true})
				co, err := w.clones.Get(o.Subject, o.Repo).Prepare(mount, clone.SpecOf(o))
				if err != nil {
					t.Errorf("round %d: %v", round, err)
					return
				}
				co.Release()
			})
		}
		all.Wait()
		timer.Stop()
		goAway()
	}
}
