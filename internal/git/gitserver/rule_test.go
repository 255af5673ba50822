package gitserver

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestScript(t *testing.T) {
	cases := []struct {
		name   string
		kind   Kind
		faults []Fault
		want   []string // for each clone in turn: a word of its error; empty means success
	}{
		{"500 twice, then good", Info, Repeat(2, Fail(http.StatusInternalServerError)), []string{"500", "500", ""}},
		{"503 to ls-refs", LsRefs, []Fault{Fail(http.StatusServiceUnavailable)}, []string{"503", ""}},
		{"502 to the fetch", Fetch, []Fault{Fail(http.StatusBadGateway)}, []string{"502", ""}},
		{"401", Info, []Fault{Fail(http.StatusUnauthorized)}, []string{"could not read Username", ""}},
		{"403", Info, []Fault{Fail(http.StatusForbidden)}, []string{"403", ""}},
		{"404", Info, []Fault{Fail(http.StatusNotFound)}, []string{"not found", ""}},
		{"429", Info, []Fault{Fail(http.StatusTooManyRequests)}, []string{"429", ""}},
		{"cut pack", Fetch, []Fault{Cut(3000)}, []string{"early EOF", ""}},
		{"the second one", Info, []Fault{nil, Fail(http.StatusBadGateway)}, []string{"", "502", ""}},
		{"no pack", Fetch, []Fault{Corrupt(0)}, []string{"pack signature mismatch", ""}},
		{"corrupt object", Fetch, []Fault{Corrupt(2000)}, []string{"index-pack", ""}},
		{"corrupt checksum", Fetch, []Fault{Corrupt(-1)}, []string{"pack is corrupted", ""}},
		{"slow", Fetch, []Fault{Drip(1000, time.Microsecond)}, []string{""}},
	}
	s, _ := sample(t)
	for _, c := range cases {
		s.Script("app", c.kind, c.faults...)
		for i, want := range c.want {
			out, err := client(t, t.TempDir(), "clone", s.URL("app"), ".")
			if (err == nil) != (want == "") || !strings.Contains(out, want) {
				t.Errorf("%s, clone %d: got %v %q, want %q", c.name, i, err, out, want)
			}
		}
		if got := s.Left("app", c.kind); got != 0 {
			t.Errorf("%s: %d faults are left", c.name, got)
		}
	}
}

func TestStallAfter(t *testing.T) {
	s, _ := sample(t)
	release, arrived := make(chan struct{}), make(chan struct{}, 1)
	s.Script("app", Fetch, func(next http.Handler) http.Handler {
		return StallAfter(2000, release)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			arrived <- struct{}{}
			next.ServeHTTP(w, r)
		}))
	})
	done := make(chan string)
	go func() {
		out, _ := client(t, t.TempDir(), "clone", s.URL("app"), "stalled")
		done <- out
	}()
	<-arrived
	select {
	case out := <-done:
		t.Fatalf("the clone ended: %s", out)
	default:
	}
	close(release)
	if out := <-done; strings.Contains(out, "fatal") {
		t.Errorf("after the release: %s", out)
	}
}

func TestProtect(t *testing.T) {
	s, _ := sample(t)
	basic, bearer := Login{User: "ada", Password: "pass word"}, Login{Bearer: "s3cret"}
	withBearer := []string{"-c", "http.extraHeader=Authorization: Bearer s3cret"}
	withBasic := []string{"-c", "credential.helper=!f() { echo username=ada; echo 'password=pass word'; }; f"}
	withWrong := []string{"-c", "http.extraHeader=Authorization: Digest x"}
	cases := []struct {
		name   string
		logins []Login
		config []string
		ok     bool
		want   map[Login]int
	}{
		{"open", nil, nil, true, map[Login]int{{}: 2}},
		{"nothing said", []Login{basic}, nil, false, map[Login]int{{}: 1}},
		{"basic", []Login{basic}, withBasic, true, map[Login]int{{}: 1, basic: 2}},
		{"bearer", []Login{basic, bearer}, withBearer, true, map[Login]int{bearer: 2}},
		{"wrong", []Login{bearer}, withBasic, false, map[Login]int{{}: 1, basic: 1}},
		{"unknown", []Login{bearer}, withWrong, false, map[Login]int{{Unknown: "Digest x"}: 1}},
	}
	for _, c := range cases {
		s.Protect("app", c.logins...)
		s.Reset()
		out, err := client(t, t.TempDir(), append(c.config, "ls-remote", s.URL("app"))...)
		if (err == nil) != c.ok {
			t.Errorf("%s: got %v %q, want success %v", c.name, err, out, c.ok)
		}
		got := s.Logins("app")
		if len(got) != len(c.want) {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
		for login, n := range c.want {
			if got[login] != n {
				t.Errorf("%s: got %d times %+v, want %d", c.name, got[login], login, n)
			}
		}
	}
}

// A redirect leads to another server, which never gets the login of the first one.
func TestRedirect(t *testing.T) {
	s, head := sample(t)
	secure, err := StartTLS(s.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer secure.Close()
	dir := t.TempDir()
	ca := caFile(t, secure)
	for _, code := range []int{301, 302, 307, 308} {
		for _, to := range []string{s.URL("app"), secure.URL("app"), secure.URL("app.git")} {
			s.Route("old", Redirect(code, to))
			secure.Reset()
			out, err := client(t, dir, "-c", "http.sslCAInfo="+ca, "ls-remote", s.URL("old"), "refs/heads/main")
			if want := head + "\trefs/heads/main"; err != nil || !strings.Contains(out, want) {
				t.Errorf("%d to %s: got %v %q, want %q", code, to, err, out, want)
			}
			if got, want := len(secure.Requests()) > 0, to != s.URL("app"); got != want {
				t.Errorf("%d to %s: the other server was asked: %v, want %v", code, to, got, want)
			}
		}
	}

	s.Route("old", Redirect(302, secure.URL("app")))
	s.Protect("old", Login{User: "ada", Password: "pw"})
	secure.Reset()
	// The result does not matter, because git does not keep a redirect that it gets after a login.
	client(t, dir, "-c", "http.sslCAInfo="+ca, "-c", "credential.helper=!f() { echo username=ada; echo password=pw; }; f",
		"ls-remote", s.URL("old"))
	if len(secure.Requests()) == 0 {
		t.Error("the other server was not asked")
	}
	for _, r := range secure.Requests() {
		if r.Header.Get("Authorization") != "" || strings.Contains(r.URI, "pw") {
			t.Errorf("the other server got %+v", r)
		}
	}
	s.Route("old")
	if out, err := client(t, dir, "-c", "credential.helper=", "ls-remote", s.URL("old")); err == nil {
		t.Errorf("without the redirect: got %q, want an error", out)
	}
}

func TestRequests(t *testing.T) {
	s, _ := sample(t)
	must(t, t.TempDir(), "clone", s.URL("app"), ".")
	want := []Request{
		{Repo: "app", Kind: Info, Method: "GET", URI: "/app/info/refs?service=git-upload-pack"},
		{Repo: "app", Kind: LsRefs, Method: "POST", URI: "/app/git-upload-pack"},
		{Repo: "app", Kind: Fetch, Method: "POST", URI: "/app/git-upload-pack"},
	}
	got := s.Requests()
	if len(got) != len(want) {
		t.Fatalf("got %+v, want %d requests", got, len(want))
	}
	for i, r := range got {
		if w := want[i]; r.Repo != w.Repo || r.Kind != w.Kind || r.Method != w.Method || r.URI != w.URI || "http://"+r.Host != s.base {
			t.Errorf("got %+v, want %+v", r, w)
		}
	}
	s.Reset()
	if got := s.Requests(); len(got) != 0 {
		t.Errorf("after a reset: got %+v", got)
	}
}

func TestSplit(t *testing.T) {
	cases := []struct {
		url  string
		want target
	}{
		{"/app/info/refs?service=git-upload-pack", target{repo: "app", rest: "/info/refs", service: uploadPack}},
		{"/app/info/refs", target{repo: "app", rest: "/info/refs"}},
		{"/team/app.git/git-receive-pack", target{repo: "team/app", rest: "/git-receive-pack", service: receivePack}},
		{"/app.git/info/lfs/objects/batch", target{repo: "app", rest: "/info/lfs/objects/batch"}},
		{"/app.git/objects/info/packs", target{repo: "app", rest: "/objects/info/packs"}},
		{"/app.git/HEAD", target{repo: "app", rest: "/HEAD"}},
		{"/objects/info/refs", target{repo: "objects", rest: "/info/refs"}},
		{"/app", target{repo: "app"}},
	}
	for _, c := range cases {
		r, err := http.NewRequest("GET", c.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := split(r); got != c.want {
			t.Errorf("%s: got %+v, want %+v", c.url, got, c.want)
		}
	}
}

func caFile(t *testing.T, s *Server) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ca.pem")
	write(t, path, s.CA())
	return path
}
