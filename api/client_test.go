package api_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/helmdeck/repos/api"
)

// answering returns a client of a server whose answer has this body, and which counts connections.
func answering(t *testing.T, status int, body string) (c *api.Client, connections *int) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, strings.ReplaceAll(body, "CLAIM", r.Header.Get(api.ClaimHeader)))
	}))
	t.Cleanup(s.Close)
	connections = new(int)
	c = api.New(func(ctx context.Context) (net.Conn, error) {
		*connections++
		return new(net.Dialer).DialContext(ctx, "tcp", s.Listener.Addr().String())
	})
	t.Cleanup(c.Close)
	return c, connections
}

// TestWarm checks how the client reads the lines of a long operation.
func TestWarm(t *testing.T) {
	obstacle := api.Obstacle{Kind: "lease", Text: "a container has it", Forced: true}
	for _, tt := range []struct {
		name, body string
		status     int
		want       string // the commit
		progress   []string
		err        string // a part
		refused    *api.Error
	}{
		{name: "result", status: 200, body: `{"status":"fetching","current":1,"total":2}` + "\n\n" + `{"status":"building"}` + "\n" + `{"result":{"commit":"c"}}` + "\n",
			want: "c", progress: []string{"fetching", "building"}},
		{name: "no line break", status: 200, body: `{"result":{"commit":"c"}}`, want: "c"},
		{name: "error", status: 200, body: `{"status":"fetching"}` + "\n" + `{"error":"broken","obstacles":[{"kind":"lease","text":"a container has it","forced":true}]}` + "\n",
			progress: []string{"fetching"}, err: "broken", refused: &api.Error{Status: 200, Message: "broken", Obstacles: []api.Obstacle{obstacle}}},
		{name: "refused", status: 409, body: `{"error":"in use"}`, err: "in use", refused: &api.Error{Status: 409, Message: "in use"}},
		{name: "cut off", status: 200, body: `{"status":"fetching"}` + "\n", progress: []string{"fetching"}, err: "no result"},
		{name: "cut off in a line", status: 200, body: `{"status":"fet`, err: "malformed line"},
		{name: "no JSON", status: 200, body: "<html>\n", err: "malformed line"},
		{name: "another result", status: 200, body: `{"result":[]}`, err: "malformed result"},
		{name: "endless line", status: 200, body: strings.Repeat("x", 5<<20), err: "too long"},
	} {
		c, _ := answering(t, tt.status, tt.body)
		var progress []string
		got, err := c.Warm(t.Context(), api.Warm{Repo: "https://h/x"}, func(p api.Progress) { progress = append(progress, p.Status) })
		if got.Commit != tt.want || !slices.Equal(progress, tt.progress) || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: got %+v after %q, %v", tt.name, got, progress, err)
		}
		var refused *api.Error
		if errors.As(err, &refused) != (tt.refused != nil) || refused != nil && fmt.Sprint(*refused) != fmt.Sprint(*tt.refused) {
			t.Errorf("%s: got the error %+v", tt.name, refused)
		}
	}
	c, _ := answering(t, 200, `{"result":{"commit":"c"}}`)
	if got, err := c.Warm(t.Context(), api.Warm{}, nil); err != nil || got.Commit != "c" {
		t.Errorf("without progress: %+v, %v", got, err)
	}
}

// TestEndlessList checks that the client gives up if the pages of a list do not end, or the answer is
// no list.
func TestEndlessList(t *testing.T) {
	for body, want := range map[string]string{
		`{"clones": [], "next": "a"}`: "does not end", `{"volumes": []}`: "malformed", `{"clones": {}}`: "malformed", `{"clones": [], "next": 1}`: "malformed",
		`[]`: "malformed",
	} {
		c, _ := answering(t, 200, body)
		if list, err := c.Clones(t.Context(), api.Filter{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, %v", body, list, err)
		}
	}
	// Pages that alternate.
	var pages atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next := "b"
		if pages.Add(1); r.URL.Query().Get("after") == "b" {
			next = "a"
		}
		fmt.Fprintf(w, `{"clones": [], "next": %q}`, next)
	}))
	t.Cleanup(s.Close)
	c := api.New(func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", s.Listener.Addr().String())
	})
	t.Cleanup(c.Close)
	if list, err := c.Clones(t.Context(), api.Filter{}); err == nil || !strings.Contains(err.Error(), "does not end") || pages.Load() != 2 {
		t.Errorf("alternating pages: got %v, %v after %d pages", list, err, pages.Load())
	}
}

// TestClaim checks that a claim is sent, and that none of its characters breaks the request.
func TestClaim(t *testing.T) {
	for claim, want := range map[string]string{"": "", "alice müller": "alice müller", "a\r\nHost: x": "a??Host: x"} {
		c, _ := answering(t, 400, `{"error": "it claims: CLAIM"}`)
		c.Claim = claim
		if _, err := c.Stats(t.Context()); err == nil || err.Error() != "it claims: "+want {
			t.Errorf("%q: got %v", claim, err)
		}
	}
}

// TestConnections checks that one connection serves calls that follow one another, until Close.
func TestConnections(t *testing.T) {
	c, connections := answering(t, 200, `{"clones": []}`)
	for range 3 {
		if _, err := c.Clones(t.Context(), api.Filter{}); err != nil {
			t.Fatal(err)
		}
	}
	if *connections != 1 {
		t.Errorf("%d connections for three calls", *connections)
	}
	c.Close()
	if _, err := c.Clones(t.Context(), api.Filter{}); err != nil || *connections != 2 {
		t.Errorf("after Close: %d connections, %v", *connections, err)
	}
}
