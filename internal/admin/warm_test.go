package admin

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/clone"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/repo/ready"
	"github.com/helmdeck/repos/internal/volume"
	"github.com/helmdeck/repos/internal/workspace/warm"
)

// warmer records a request, and reports progress.
type warmer struct {
	asked    ready.WarmRequest
	progress []ready.Progress
	states   []warm.State
	read     chan struct{} // gets a value for each progress that the client has read
	fail     error
}

func (w *warmer) Warm(ctx context.Context, r ready.WarmRequest, report func(ready.Progress)) (ready.Warmed, error) {
	w.asked = r
	for _, p := range w.progress {
		report(p)
		select {
		case <-w.read:
		case <-ctx.Done():
			return ready.Warmed{}, context.Cause(ctx)
		}
	}
	return ready.Warmed{Clone: "s/1", Subject: "s", Repo: "https://h/r", Ref: "main", Commit: "c", Size: bytes4k(1), States: w.states}, w.fail
}

func TestWarm(t *testing.T) {
	ctx := t.Context()
	log, _ := logger()
	f := &warmer{read: make(chan struct{}), progress: []ready.Progress{{Status: "asking"}, {Status: "cloning: receiving objects", Objects: 3, Total: 7}}}
	config := Config{Warmer: f, Log: log}
	c := client(t, config)
	var got []api.Progress
	read := func(p api.Progress) {
		got = append(got, p)
		f.read <- struct{}{}
	}
	want := api.Warm{Repo: "https://h/r", Ref: "main", Subject: "s", Options: map[string]string{"depth": "1"}}
	res, err := c.Warm(ctx, want, read)
	if err != nil || !reflect.DeepEqual(f.asked, ready.WarmRequest(want)) ||
		!reflect.DeepEqual(res, api.WarmResult{Clone: "s/1", Subject: "s", Repo: "https://h/r", Ref: "main", Commit: "c", Size: api.Size{Bytes: 4096, Inodes: 1}, States: []api.WarmState{}}) {
		t.Errorf("got %+v, %v for %+v", res, err, f.asked)
	}
	if p := []api.Progress{{Status: "asking"}, {Status: "cloning: receiving objects", Current: 3, Total: 7, Unit: "objects"}}; !reflect.DeepEqual(got, p) {
		t.Errorf("progress %+v, want %+v", got, p)
	}
	built := meta.Built{Commit: "b", BuiltAt: at, Label: "label"}
	f.states = []warm.State{
		{Path: "exact", Head: "1", Found: warm.Found{Built: built, Exact: true}},
		{Path: "other", Head: "2", Found: warm.Found{Built: built, Why: "another"}},
		{Path: "left out", Head: "3", LeftOut: "the commit has it", Never: true},
		{Path: "to be replaced", Head: "5", LeftOut: "it does not fit"},
		{Path: "none", Head: "4"},
	}
	states := []api.WarmState{
		{Path: "exact", Head: "1", Exact: true, Commit: "b", BuiltAt: at, Label: "label"},
		{Path: "other", Head: "2", Commit: "b", BuiltAt: at, Label: "label", Why: "another"},
		{Path: "left out", Head: "3", LeftOut: true, Why: "the commit has it"},
		{Path: "to be replaced", Head: "5", Why: "it does not fit"},
		{Path: "none", Head: "4", Why: "there is none yet"},
	}
	if res, err := c.Warm(ctx, want, read); err != nil || !reflect.DeepEqual(res.States, states) {
		t.Errorf("got %+v, %v, want %+v", res.States, err, states)
	}
	// After the first line, an error is the last one. Before it, an error has a status.
	var refused *api.Error
	f.fail = errors.New("broken")
	if _, err := c.Warm(ctx, want, read); !errors.As(err, &refused) || refused.Status != 200 || refused.Message != "broken" {
		t.Errorf("after progress: %#v", err)
	}
	f.progress, f.fail = nil, volume.Refuse("ref", "-", "is no ref", "")
	if _, err := c.Warm(ctx, want, nil); !errors.As(err, &refused) || refused.Status != 400 {
		t.Errorf("before: %#v", err)
	}
	f.fail = clone.ErrEvicted
	if _, err := c.Warm(ctx, want, nil); !errors.As(err, &refused) || refused.Status != 503 {
		t.Errorf("of a clone that was evicted: %#v", err)
	}
	for _, body := range []string{"", "{", `{"url": "x"}`, `{"options": {"depth": 1}}`} {
		w := httptest.NewRecorder()
		Handler(config).ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/warm", strings.NewReader(body)))
		if w.Code != 400 {
			t.Errorf("%q: status %d, want 400", body, w.Code)
		}
	}
}

// TestWarmClientGoes checks that the work learns that its client has gone.
func TestWarmClientGoes(t *testing.T) {
	log, _ := logger()
	f := &warmer{read: make(chan struct{}), progress: []ready.Progress{{Status: "asking"}}}
	ended := make(chan error, 1)
	c := api.Dial(serve(t, Handler(Config{Warmer: watched{f, ended}, Log: log})))
	ctx, goAway := context.WithCancel(t.Context())
	if _, err := c.Warm(ctx, api.Warm{Repo: "https://h/r"}, func(api.Progress) { goAway() }); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the work got %v", err)
	}
}

// watched sends the error of each Warm.
type watched struct {
	Warmer
	ended chan<- error
}

func (w watched) Warm(ctx context.Context, r ready.WarmRequest, report func(ready.Progress)) (ready.Warmed, error) {
	res, err := w.Warmer.Warm(ctx, r, report)
	w.ended <- err
	return res, err
}
