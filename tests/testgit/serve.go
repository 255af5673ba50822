package testgit

import (
	"testing"

	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/tests/testdir"
)

// Serve starts a git server on loopback, without repositories. The end of the test closes it.
func Serve(t testing.TB) *gitserver.Server {
	t.Helper()
	s, err := gitserver.Start(testdir.New(t, "remote"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// Generate makes a repository on a server and returns the commit of its main branch.
func Generate(t testing.TB, s *gitserver.Server, name string, spec gitserver.Spec) (head string) {
	t.Helper()
	head, err := gitserver.Generate(s.Path(name), spec)
	if err != nil {
		t.Fatal(err)
	}
	return head
}

// Remote starts a server as Serve does, and makes one repository on it.
func Remote(t testing.TB, name string, spec gitserver.Spec) *gitserver.Server {
	t.Helper()
	s := Serve(t)
	Generate(t, s, name, spec)
	return s
}
