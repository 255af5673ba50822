// Package session holds what all commands of one invocation share: the docker CLI, the global flags and
// the connection to the plugin.
//
// A package of its own for a command has a function New(*Session) *cobra.Command, which package commands
// calls.
package session

import (
	"cmp"
	"context"
	"io"
	"strings"
	"sync"

	"github.com/containerd/errdefs"
	"github.com/docker/cli/cli/command"
	"github.com/docker/cli/cli/streams"
	"github.com/moby/moby/client"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/cli/internal/containers"
	"github.com/helmdeck/repos/cli/internal/dial"
	"github.com/helmdeck/repos/cli/internal/show"
)

// Session is one invocation. Its methods may be called concurrently. The docker CLI is not initialized
// until a command runs.
type Session struct {
	Docker command.Cli
	// Version is the version of this program.
	Version string
	// Target has the global flags.
	Target dial.Target

	mu     sync.Mutex
	way    dial.Way
	client *api.Client
}

// Out returns standard output. On a terminal it escapes control characters, because names in it come
// from users of the engine.
func (s *Session) Out() io.Writer { return escaped(s.Docker.Out()) }

// Err is Out for standard error.
func (s *Session) Err() io.Writer { return escaped(s.Docker.Err()) }

func escaped(out *streams.Out) io.Writer {
	if out.IsTerminal() {
		return show.Terminal(out)
	}
	return out
}

// Engine returns the client of the Docker engine.
func (s *Session) Engine() client.APIClient { return s.Docker.Client() }

// Remote reports whether the engine is not reached over a socket of this machine.
func (s *Session) Remote() bool {
	return s.Target.Socket == "" && !strings.HasPrefix(s.Docker.DockerEndpoint().Host, "unix://")
}

// Client returns a client of the admin API, the same one until Close or Lost.
func (s *Session) Client(ctx context.Context) (*api.Client, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	way, err := s.open(ctx)
	if err != nil {
		return nil, err
	}
	if s.client == nil {
		s.client = api.New(way.Dial)
		s.client.Claim = way.Claim()
	}
	return s.client, nil
}

// Way returns the way to the admin socket, the same one until Close or Lost.
func (s *Session) Way(ctx context.Context) (dial.Way, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open(ctx)
}

// open is Way. The caller holds mu.
func (s *Session) open(ctx context.Context) (dial.Way, error) {
	if s.way == nil {
		t := s.Target
		if t.Engine = s.Engine; t.Socket == "" {
			t.Host = s.Docker.DockerEndpoint().Host
		}
		way, err := dial.Open(ctx, t)
		if err != nil {
			return nil, err
		}
		s.way = way
	}
	return s.way, nil
}

// Containers returns what finds the containers of the engine. It is nil, without an error, if the user has named
// the admin socket, or if no engine runs the plugin.
func (s *Session) Containers(ctx context.Context) (*containers.Finder, error) {
	if s.Target.Socket != "" {
		return nil, nil
	}
	f, err := containers.New(ctx, s.Engine(), cmp.Or(s.Target.Plugin, dial.DefaultPlugin))
	if errdefs.IsNotFound(err) || client.IsErrConnectionFailed(err) {
		return nil, nil
	}
	return f, err
}

// Close closes the connections.
func (s *Session) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.close()
}

// Lost closes the connections if they are those of c, which does not reach the plugin any more. The next Client makes
// new ones: they belong to others too, so the second who finds the same client lost must not close them.
func (s *Session) Lost(c *api.Client) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client != c {
		return nil
	}
	return s.close()
}

// close is Close. The caller holds mu.
func (s *Session) close() error {
	if s.way == nil {
		return nil
	}
	if s.client != nil {
		s.client.Close()
	}
	way := s.way
	s.way, s.client = nil, nil
	return way.Close()
}
