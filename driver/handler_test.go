package driver

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/docker/go-plugins-helpers/volume"
	"github.com/sirupsen/logrus"

	"github.com/helmdeck/repos/internal/verbs"
	"github.com/helmdeck/repos/tests/testverbs"
)

// broken lists a volume "broken". Get panics for it.
type broken struct{ verbs.Verbs }

func (broken) List() []verbs.Volume { return []verbs.Volume{{Name: "broken"}} }

func (b broken) Get(name string) (verbs.Volume, error) {
	if name == "broken" {
		panic("broken")
	}
	return b.Verbs.Get(name)
}

func TestHandler(t *testing.T) {
	t.Parallel()
	log := logrus.New()
	log.SetOutput(io.Discard)
	d := New(Config{Volumes: broken{testverbs.New(t)}, Log: log, Now: time.Now, MountWait: time.Minute})
	server := httptest.NewServer(Handler(d))
	t.Cleanup(server.Close)
	const post = http.MethodPost
	large := `{"Name":"` + strings.Repeat("x", maxBody) + `"}`
	for _, tt := range []struct {
		method, path, body string
		status             int
		want               string // part of the answer
	}{
		{post, "/Plugin.Activate", "", 200, `{"Implements":["VolumeDriver"]}`},
		{post, "/Plugin.Activate", "{}", 200, `VolumeDriver`},
		{post, "/VolumeDriver.Capabilities", "", 200, `{"Capabilities":{"Scope":"local"}}`},
		{post, "/VolumeDriver.List", "{}", 200, `"Name":"broken"`},
		{post, "/VolumeDriver.Create", "", 500, "was restarted while it was at work on this: run it again"},
		{post, "/VolumeDriver.Get", "", 500, "was restarted while it was at work on this: run it again"},
		{post, "/VolumeDriver.Path", "", 500, "was restarted while it was at work on this: run it again"},
		{post, "/VolumeDriver.Remove", "", 500, "was restarted while it was at work on this: run it again"},
		{post, "/VolumeDriver.Mount", "", 500, "was restarted while it was at work on this: run it again"},
		{post, "/VolumeDriver.Unmount", "", 500, "was restarted while it was at work on this: run it again"},
		{post, "/VolumeDriver.Create", "{", 400, "the request is malformed"},
		{post, "/VolumeDriver.Create", "[]", 400, "the request is malformed"},
		{post, "/VolumeDriver.Create", `{"Name":1}`, 400, "the request is malformed"},
		{post, "/VolumeDriver.Create", `{"Name":"v"} x`, 400, "the request is malformed"},
		{post, "/VolumeDriver.Create", large, 413, "larger than 1048576 bytes"},
		{post, "/VolumeDriver.List", large, 413, "larger than 1048576 bytes"},
		{post, "/VolumeDriver.Create", `{"Name":"v","Opts":{` + strings.Repeat(`"":"",`, 1<<17) + `"":""}}`, 400, "more than 10000 names and values"},
		{post, "/VolumeDriver.Create", `{"Name":"v","Opts":{"repo":` + strings.Repeat(`[`, 1<<19) + `}}`, 400, "more than 10000 names and values"},
		{post, "/VolumeDriver.Create", `{"Name":""}`, 500, "is empty"},
		{post, "/VolumeDriver.Create", `{"Name":"v","Opts":{}}`, 500, `option \"repo\": missing`},
		{post, "/VolumeDriver.Create", `{"Name":"v","Opts":{"colour":"red"}}`, 500, `option \"colour\": unknown option`},
		{post, "/VolumeDriver.Get", `{"Name":"nobody"}`, 500, `no volume \"nobody\"`},
		{post, "/VolumeDriver.Path", `{"Name":"nobody"}`, 500, `no volume \"nobody\"`},
		{post, "/VolumeDriver.Mount", `{"Name":"nobody","ID":"1"}`, 500, `no volume \"nobody\"`},
		{post, "/VolumeDriver.Mount", `{"Name":"broken"}`, 400, "no mount ID"},
		{post, "/VolumeDriver.Mount", `{"Name":"broken","ID":"1#2"}`, 500, `the lease ID \"1#2\" has a #`},
		{post, "/VolumeDriver.Remove", `{"Name":"nobody"}`, 200, "{}"},
		{post, "/VolumeDriver.Get", `{"Name":"broken"}`, 500, "internal error"},
		{post, "/VolumeDriver.List", "", 200, `"Name":"broken"`}, // the server continues after a panic
		{post, "/VolumeDriver.Prune", "{}", 404, ""},
		{http.MethodGet, "/VolumeDriver.List", "", 405, ""},
		{post, "/", "{}", 404, ""},
	} {
		r, err := http.NewRequestWithContext(t.Context(), tt.method, server.URL+tt.path, strings.NewReader(tt.body))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Errorf("%s %.40q: %v", tt.path, tt.body, err)
			continue
		}
		data, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != tt.status || !strings.Contains(string(data), tt.want) {
			t.Errorf("%s %.40q: %d %s, want %d %s", tt.path, tt.body, resp.StatusCode, data, tt.status, tt.want)
		}
		if tt.want == "" {
			continue
		}
		if got := resp.Header.Get("Content-Type"); got != contentType {
			t.Errorf("%s: content type %q", tt.path, got)
		}
		var e volume.ErrorResponse
		if err := json.Unmarshal(data, &e); err != nil || (e.Err != "") != (tt.status != 200) {
			t.Errorf("%s %.40q: the engine cannot read the answer %s (%v)", tt.path, tt.body, data, err)
		}
	}
}
