// Package session holds what all commands of one invocation share: the docker CLI, the global flags and
// the connection to the plugin.
//
// A package of its own for a command has a function New(*Session) *cobra.Command, which package commands
// calls.
package session

import (
	"context"
	"sync"

	"github.com/docker/cli/cli/command"
	"github.com/moby/moby/client"

	"github.com/helmdeck/repos/cli/internal/dial"
)

// Session is one invocation. Its methods may be called concurrently. The docker CLI is not initialized
// until a command runs.
type Session struct {
	Docker command.Cli
	// Version is the version of this program.
	Version string
	// Target has the global flags.
	Target dial.Target

	mu  sync.Mutex
	way dial.Way
}

// Engine returns the client of the Docker engine.
func (s *Session) Engine() client.APIClient { return s.Docker.Client() }

// Way returns the way to the admin socket, the same one for the whole invocation.
func (s *Session) Way(ctx context.Context) (dial.Way, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.way == nil {
		t := s.Target
		t.Engine, t.Host = s.Engine, s.Docker.DockerEndpoint().Host
		way, err := dial.Open(ctx, t)
		if err != nil {
			return nil, err
		}
		s.way = way
	}
	return s.way, nil
}

// Close closes the way, if there is one.
func (s *Session) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.way == nil {
		return nil
	}
	way := s.way
	s.way = nil
	return way.Close()
}
