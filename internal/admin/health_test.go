package admin

import (
	"context"
	"net/http"
	"net/http/httptest"
	"reflect"
	"testing"
	"time"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/admin/health"
)

func TestHealth(t *testing.T) {
	log, _ := logger()
	at := time.Date(2024, 5, 1, 12, 0, 0, 0, time.UTC)
	var asked []bool
	set := Config{Log: log, Health: func(_ context.Context, remotes bool) health.Report {
		asked = append(asked, remotes)
		return health.Report{Time: at, Checks: []health.Check{
			{Name: "disk", Status: health.OK, Text: "free"},
			{Name: "remote", Target: "https://h", Status: health.Warning, Text: "slow", Remedy: "wait"},
		}}
	}}
	c := client(t, set)
	want := api.Health{Time: at, Status: api.Warning, Checks: []api.Check{
		{Name: "disk", Status: api.OK, Text: "free"}, {Name: "remote", Target: "https://h", Status: api.Warning, Text: "slow", Remedy: "wait"},
	}}
	for _, remotes := range []bool{false, true} {
		if got, err := c.Health(t.Context(), remotes); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, %v", got, err)
		}
	}
	if !reflect.DeepEqual(asked, []bool{false, true}) {
		t.Errorf("asked for remotes: %v", asked)
	}
	for _, query := range []string{"remotes=maybe", "remote=true"} {
		w := httptest.NewRecorder()
		Handler(set).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/v1/health?"+query, nil))
		if w.Code != http.StatusBadRequest {
			t.Errorf("%s: got %d %s", query, w.Code, w.Body)
		}
	}
}
