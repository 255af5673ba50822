package admin

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/credential"
	"github.com/helmdeck/repos/tests/testapi"
)

const hidden = "s3cr3t-0f-th1s-t3st"

// logger returns a log and a buffer with its content.
func logger() (*logrus.Logger, *bytes.Buffer) {
	var b bytes.Buffer
	log := logrus.New()
	log.SetOutput(&b)
	log.SetLevel(logrus.TraceLevel)
	return log, &b
}

func store(t *testing.T) *credential.Store {
	t.Helper()
	s, err := credential.Open(filepath.Join(t.TempDir(), "credentials"), credential.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestRoutes(t *testing.T) {
	const good = `{"kind": "https", "scope": "https://H:443/org/", "subject": "team a", "user": "u", "secret": "` + hidden + `"}`
	stored := `{"credentials":[{"name":"github","kind":"https","scope":"https://h/org","subject":"team a","user":"u","allow":"fetch"}]}`
	log, logged := logger()
	h := testapi.Documented(t, Handler(Config{Credentials: store(t), Log: log}))
	for _, tt := range []struct {
		method, path, body string
		status             int
		want               string // the body, or a part of it if it is an error
		log                string // part of the log
	}{
		{"GET", "/v1/credentials", "", 200, `{"credentials":[]}`, ""},
		{"PUT", "/v1/credentials/github", good, 204, "", `msg="credential stored" allow=fetch kind=https name=github scope="https://H:443/org/" subject="team a"`},
		{"GET", "/v1/credentials", "", 200, stored, ""},
		{"PUT", "/v1/credentials/github", " " + good + "\n", 204, "", "credential stored"},

		{"PUT", "/v1/credentials/a%2Fb", good, 400, `name \"a/b\" is not`, ""},
		{"PUT", "/v1/credentials/a", "", 400, "the request has no body", ""},
		{"PUT", "/v1/credentials/a", "kind=https&secret=" + hidden, 400, "malformed", ""},
		{"PUT", "/v1/credentials/a", "[" + good + "]", 400, "malformed", ""},
		{"PUT", "/v1/credentials/a", good + good, 400, "more than one JSON value", ""},
		{"PUT", "/v1/credentials/a", good + hidden, 400, "malformed", ""},
		{"PUT", "/v1/credentials/a", good[:len(good)-5], 400, "malformed", ""},
		{"PUT", "/v1/credentials/a", strings.Replace(good, "user", "username", 1), 400, `unknown field \"username\"`, ""},
		{"PUT", "/v1/credentials/a", strings.Replace(good, "{", `{"name": "a", `, 1), 400, `unknown field \"name\"`, ""},
		{"PUT", "/v1/credentials/a", `{"secret": ["` + hidden + `"]}`, 400, "not a JSON string", ""},
		{"PUT", "/v1/credentials/a", `{"kind": {"` + hidden + `": 1}}`, 400, "malformed", ""},
		{"PUT", "/v1/credentials/a", "null", 400, "kind", ""},
		{"PUT", "/v1/credentials/a", "{}", 400, "kind", ""},
		{"PUT", "/v1/credentials/a", strings.Replace(good, "https://H", "https://"+hidden+"@H", 1), 400, "contains a user name", ""},
		{"PUT", "/v1/credentials/a", strings.Replace(good, hidden, hidden+`\n`, 1), 400, "line break", ""},
		{"PUT", "/v1/credentials/a", `{"secret": "` + strings.Repeat("x", maxBody) + `"}`, 413, "larger than 1048576 bytes", ""},
		{"PUT", "/v1/credentials/a", good + strings.Repeat(" ", maxBody), 413, "larger than 1048576 bytes", ""},
		{"DELETE", "/v1/credentials/a", "", 404, `there is no credential \"a\"`, ""},

		{"POST", "/v1/credentials", good, 405, `there is no POST \"/v1/credentials\" here`, ""},
		{"GET", "/v1/credentials/github", "", 405, "there is no GET", ""},
		{"PUT", "/v1/credentials/", good, 404, "there is no PUT", ""},
		{"PUT", "/v1/credentials/a/b", good, 404, "there is no PUT", ""},
		{"GET", "/", "", 404, "there is no GET", ""},
		{"POST", "/VolumeDriver.List", "", 404, "there is no POST", ""},

		{"GET", "/v1/credentials", "", 200, stored, ""}, // the refused requests changed nothing
		{"DELETE", "/v1/credentials/github", "", 204, "", `msg="credential removed" name=github`},
		{"GET", "/v1/credentials", "", 200, `{"credentials":[]}`, ""},
	} {
		logged.Reset()
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(tt.method, tt.path, strings.NewReader(tt.body)))
		what := tt.method + " " + tt.path + " " + tt.body[:min(len(tt.body), 100)]
		got := strings.TrimSuffix(w.Body.String(), "\n")
		if w.Code != tt.status {
			t.Errorf("%s: got status %d, want %d (%s)", what, w.Code, tt.status, got)
		}
		if tt.status < 300 && got != tt.want || !strings.Contains(got, tt.want) {
			t.Errorf("%s: got %s, want %s", what, got, tt.want)
		}
		var refused api.ErrorAnswer
		if tt.status >= 300 && (json.Unmarshal([]byte(got), &refused) != nil || refused.Error == "") {
			t.Errorf("%s: got %s, want an error in JSON", what, got)
		}
		if tt.status != 204 && w.Header().Get("Content-Type") != "application/json" {
			t.Errorf("%s: content type %q", what, w.Header().Get("Content-Type"))
		}
		if tt.status == 405 && w.Header().Get("Allow") == "" {
			t.Errorf("%s: the response does not say what is allowed", what)
		}
		if l := logged.String(); !strings.Contains(l, tt.log) || tt.log == "" && l != "" {
			t.Errorf("%s: logged %q, want %q", what, l, tt.log)
		}
		if strings.Contains(got+logged.String()+w.Header().Get("Location"), hidden) {
			t.Errorf("%s: the response or the log shows the secret: %s %s", what, got, logged)
		}
	}
}

// broken calls its function in each method.
type broken func() error

func (b broken) Put(credential.Credential) error { return b() }
func (b broken) Remove(string) error             { return b() }
func (b broken) List() []credential.Info         { _ = b(); return nil }

func TestFailedRequestsAreLogged(t *testing.T) {
	for _, tt := range []struct {
		name, method, path, body string
		fail                     broken
		want, log                string
	}{
		{"put fails", "PUT", "/v1/credentials/a", `{"secret": "` + hidden + `"}`, func() error { return errors.New("the disk is full") },
			"the disk is full", `level=error msg="PUT /v1/credentials/{name} failed" error="the disk is full"`},
		{"remove fails", "DELETE", "/v1/credentials/a", "", func() error { return errors.New("the disk is gone") },
			"the disk is gone", "the disk is gone"},
		{"panic in put", "PUT", "/v1/credentials/a", `{"secret": "` + hidden + `"}`, func() error { panic("the bug") },
			"internal error: the plugin's log says more", `msg="panic in PUT /v1/credentials/{name}: the bug" stack=`},
		{"panic in list", "GET", "/v1/credentials", "", func() error { panic(errors.New("the bug")) },
			"internal error", "panic in GET /v1/credentials: the bug"},
	} {
		log, logged := logger()
		w := httptest.NewRecorder()
		Handler(Config{Credentials: tt.fail, Log: log}).ServeHTTP(w, httptest.NewRequest(tt.method, tt.path, strings.NewReader(tt.body)))
		if got := w.Body.String(); w.Code != 500 || !strings.Contains(got, tt.want) || strings.Contains(got, "goroutine") {
			t.Errorf("%s: got %d %s, want %s", tt.name, w.Code, got, tt.want)
		}
		if got := logged.String(); !strings.Contains(got, tt.log) || strings.Contains(got, hidden) {
			t.Errorf("%s: logged %s, want %s", tt.name, got, tt.log)
		}
	}
}

// TestLostConnection checks that a body that ends early is an error, and stores nothing.
func TestLostConnection(t *testing.T) {
	log, _ := logger()
	s := store(t)
	r := httptest.NewRequest(http.MethodPut, "/v1/credentials/a", io.MultiReader(
		strings.NewReader(`{"kind": "https", "scope": "https://h", "user": "u", "secret": "x"}`), lost{}))
	w := httptest.NewRecorder()
	Handler(Config{Credentials: s, Log: log}).ServeHTTP(w, r)
	if w.Code != 400 || len(s.List()) != 0 {
		t.Errorf("got %d %s, %v", w.Code, w.Body, s.List())
	}
}

type lost struct{}

func (lost) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }
