package main

import (
	"strings"
	"sync"
	"testing"

	"github.com/helmdeck/repos/internal/git/gitserver"
)

// startBeforeAQuestion starts a plugin with a warm volume "v" of a repository "sample", whose server
// holds the next question until release is called or the test ends.
func startBeforeAQuestion(t *testing.T) (p *process, s *gitserver.Server, gate gitserver.Gate, release func()) {
	t.Helper()
	s = remote(t)
	p = start(t, scratch(t))
	p.create("v", map[string]string{"repo": s.URL("sample")})
	p.mount("v", "1")
	gate = gitserver.NewGate()
	release = sync.OnceFunc(func() { close(gate.Open) })
	t.Cleanup(release)
	s.Script("sample", gitserver.LsRefs, gate.Fault)
	return p, s, gate, release
}

// TestStopAnswersMounts checks that a Mount that waits for its remote when the plugin stops gets an
// error that says so, instead of a closed connection.
func TestStopAnswersMounts(t *testing.T) {
	t.Parallel()
	p, _, gate, release := startBeforeAQuestion(t)
	answer := make(chan error)
	go func() { answer <- p.tryMount("v", "2") }()
	<-gate.Arrived // the Mount asks the remote
	p.stop()
	err := <-answer
	if err == nil || !strings.Contains(err.Error(), "run it again when the plugin is enabled") {
		t.Errorf("mount: %v", err)
	}
	release()
}
