package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/repo/ready"
	"github.com/helmdeck/repos/internal/volume"
	"github.com/helmdeck/repos/tests/testapi"
)

// refresher records requests.
type refresher struct {
	asked ready.Request
	list  []ready.Result
	fail  error
}

func (r *refresher) Refresh(_ context.Context, want ready.Request) ([]ready.Result, error) {
	r.asked = want
	return r.list, r.fail
}

func TestRefresh(t *testing.T) {
	ctx := t.Context()
	log, _ := logger()
	f := &refresher{}
	h := testapi.Documented(t, Handler(Config{Refresher: f, Log: log}))
	c := api.Dial(serve(t, h))
	status := func(body string) int {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/refresh", strings.NewReader(body)))
		return w.Code
	}
	r := api.Refresh{Repo: "https://h/r", Ref: "main", Subject: "s"}
	if list, err := c.Refresh(ctx, r); err != nil || list == nil || len(list) != 0 || f.asked != (ready.Request{Repo: "https://h/r", Ref: "main", Subject: "s"}) {
		t.Errorf("got %v, %v for %+v; want an empty list", list, err, f.asked)
	}
	f.list = []ready.Result{{Clone: "s/1", Subject: "s", Ref: "main", Commit: "c"}, {Clone: "s/1", Subject: "s", Ref: "dev", Error: "why"}}
	if list, err := c.Refresh(ctx, r); err != nil || !reflect.DeepEqual(list, []api.RefreshResult{
		{Clone: "s/1", Subject: "s", Ref: "main", Commit: "c"}, {Clone: "s/1", Subject: "s", Ref: "dev", Error: "why"},
	}) {
		t.Errorf("got %+v, %v", list, err)
	}
	for _, tt := range []struct {
		fail   error
		status int
	}{
		{fmt.Errorf("%w of x", ready.ErrNoClone), 404}, {&volume.OptionError{Option: "repo"}, 400}, {errors.New("broken"), 500},
	} {
		f.fail = tt.fail
		var refused *api.Error
		if _, err := c.Refresh(ctx, r); !errors.As(err, &refused) || refused.Status != tt.status || refused.Message != tt.fail.Error() {
			t.Errorf("got %v, want %d %v", err, tt.status, tt.fail)
		}
	}
	for _, body := range []string{"", "{", `{"url": "https://h/r"}`, `{"repo": 1}`, `{} {}`} {
		if got := status(body); got != 400 {
			t.Errorf("%q: status %d, want 400", body, got)
		}
	}
	if got := status(`{"repo": "` + strings.Repeat("x", maxBody) + `"}`); got != 413 {
		t.Errorf("a large request: status %d, want 413", got)
	}
}
