package git

import (
	"net/netip"
	"net/url"
	"slices"
	"testing"

	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/tests/testgit"
)

func runner(t *testing.T) *Git {
	t.Helper()
	g, err := New(Config{UID: 65532, GID: 65532, Schemes: []string{"https", "http", "ssh", "git"}})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

var loopback = []netip.Addr{netip.MustParseAddr("127.0.0.1")}

func TestPinnedFetch(t *testing.T) {
	s := testgit.Serve(t)
	id, err := gitserver.Commit(create(t, s, "r"), "main", gitserver.Change{Path: "f", Content: "x"})
	if err != nil {
		t.Fatal(err)
	}
	s.Route("moved", gitserver.Redirect(301, "http://pinned.invalid:"+port(t, s)+"/r"))
	// No name server knows this host. Only the pin leads to it, also for the request that
	// asks for a redirect's target.
	for _, repo := range []string{"r", "moved"} {
		refs, err := runner(t).LsRefs(t.Context(), Remote{URL: "http://pinned.invalid:" + port(t, s) + "/" + repo, Pin: loopback}, "refs/heads/main")
		if err != nil || refs.IDs["refs/heads/main"] != id {
			t.Errorf("%s: %v, %v, want main at %s", repo, refs, err, id)
		}
	}
	// The name leads to the server, but the pin leads elsewhere and has precedence.
	s.Reset()
	for _, r := range []Remote{
		{URL: "http://localhost:" + port(t, s) + "/r", Pin: []netip.Addr{netip.MustParseAddr("127.0.0.2")}},
		{URL: "git://localhost:" + port(t, s) + "/r", Pin: loopback},
	} {
		if refs, err := runner(t).LsRefs(t.Context(), r); err == nil {
			t.Errorf("%s pinned elsewhere: %v, want an error", r.URL, refs)
		}
	}
	if got := s.Requests(); len(got) > 0 {
		t.Errorf("requests that were pinned elsewhere reached the server: %v", got)
	}
}

func create(t *testing.T, s *gitserver.Server, name string) string {
	t.Helper()
	testgit.Generate(t, s, name, gitserver.Spec{})
	return s.Path(name)
}

func port(t *testing.T, s *gitserver.Server) string {
	t.Helper()
	u, err := url.Parse(s.URL(""))
	if err != nil {
		t.Fatal(err)
	}
	return u.Port()
}

func TestPinConfig(t *testing.T) {
	two := []netip.Addr{netip.MustParseAddr("140.82.112.3"), netip.MustParseAddr("2606:50c0::1")}
	for _, tt := range []struct {
		url  string
		pin  []netip.Addr
		want []string
		err  bool
	}{
		{"https://h/r", nil, nil, false},
		{"https://h/r", two, []string{"http.curloptResolve", "h:443:140.82.112.3,[2606:50c0::1]"}, false},
		{"http://h:8080/r", two[:1], []string{"http.curloptResolve", "h:8080:140.82.112.3"}, false},
		{"https://[2606:50c0::1]/r", two[1:], nil, false},
		{"git@h:r", two, nil, false},
		{"ssh://h/r", two, nil, false},
		{"git://h/r", two, nil, true},
	} {
		got, err := pinConfig(tt.url, tt.pin)
		if !slices.Equal(got, tt.want) || (err != nil) != tt.err {
			t.Errorf("pinConfig(%q, %v) = %q, %v, want %q, error %v", tt.url, tt.pin, got, err, tt.want, tt.err)
		}
	}
}
