package cmd

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"testing"

	"github.com/docker/cli/cli/command"
	"github.com/docker/cli/cli/context/docker"
	"github.com/moby/moby/client"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/cli/internal/dial"
	"github.com/helmdeck/repos/cli/internal/session"
)

// remote is a docker CLI whose engine, on another machine, runs the plugin.
type remote struct {
	command.Cli
	client.APIClient
}

func (r remote) Client() client.APIClient      { return r }
func (remote) DockerEndpoint() docker.Endpoint { return docker.Endpoint{} }

func (remote) PluginInspect(
	context.Context, string, client.PluginInspectOptions,
) (r client.PluginInspectResult, err error) {
	r.Plugin.ID, r.Plugin.Enabled = "id", true
	return r, nil
}

// relay reaches a plugin until the plugin restarts.
type relay struct {
	address      string
	lost, closed bool
}

func (r *relay) Dial(ctx context.Context) (net.Conn, error) {
	if r.lost || r.closed {
		return nil, errors.New("the relay has ended")
	}
	return new(net.Dialer).DialContext(ctx, "tcp", r.address)
}

func (r *relay) Claim() string { return "" }

func (r *relay) Close() error {
	r.closed = true
	return nil
}

// TestRestart checks that jobs reach a plugin that has restarted, by one new relay, which none of them closes for what
// it learned from the relay before.
func TestRestart(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "close")
		w.Write([]byte(`{"workspaces": []}`))
	}))
	defer server.Close()
	var relays []*relay
	open := func(context.Context, client.APIClient, string) (dial.Way, error) {
		relays = append(relays, &relay{address: server.Listener.Addr().String()})
		return relays[len(relays)-1], nil
	}
	s := &session.Session{Docker: remote{}, Target: dial.Target{Relay: open}}
	lost := &url.Error{Op: "Get", URL: "http://plugin", Err: errors.New("the relay has ended")}
	isLost := func(err error) bool { _, ok := errors.AsType[*url.Error](err); return ok }
	p := prebuilder(s).Plugin
	look := func(fails bool) {
		t.Helper()
		if _, err := p.Workspaces(t.Context(), api.Filter{}); isLost(err) != fails || !fails && err != nil {
			t.Fatalf("got %v", err)
		}
	}
	check := func(when string, closed ...bool) {
		t.Helper()
		var got []bool
		for _, r := range relays {
			got = append(got, r.closed)
		}
		if !slices.Equal(got, closed) {
			t.Errorf("%s: closed are %v, want %v", when, got, closed)
		}
	}
	look(false)
	check("before", false)
	// Another job asks over the same relay, and learns of its loss last.
	err := plugin{s}.ask(t.Context(), func(*api.Client) error {
		relays[0].lost = true
		look(true)
		check("after the restart", true)
		look(false)
		return lost
	})
	if !isLost(err) {
		t.Errorf("got %v", err)
	}
	check("after the other job", true, false)
	ctx, end := context.WithCancel(t.Context())
	err = plugin{s}.ask(ctx, func(*api.Client) error {
		end()
		return lost
	})
	if !isLost(err) {
		t.Errorf("got %v", err)
	}
	check("after the end of a caller", true, false)
	for _, tt := range []struct {
		when   string
		err    error
		closed bool
	}{{"after an error of the plugin", &api.Error{Message: "no such workspace"}, false}, {"after an answer that broke off", io.ErrUnexpectedEOF, true}} {
		if err := (plugin{s}).ask(t.Context(), func(*api.Client) error { return tt.err }); !errors.Is(err, tt.err) {
			t.Errorf("%s: got %v", tt.when, err)
		}
		check(tt.when, true, tt.closed)
	}
}
