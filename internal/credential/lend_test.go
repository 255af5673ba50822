package credential

import (
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
)

// TestLend checks that a lent credential is found by its name alone, and never on disk.
func TestLend(t *testing.T) {
	t.Parallel()
	s, p, _ := renewing(t)
	changes := s.Changes()
	c := token("ignored")
	c.Scope, c.Subject = "https://h", "a"
	name, err := s.Lend(c)
	if err != nil {
		t.Fatal(err)
	}
	other, err := s.Lend(broker(""))
	if err != nil || other == name || s.Changes() != changes {
		t.Errorf("%q, %q, %v", name, other, err)
	}
	r := request(t, "https://h/o/r")
	if m := obtain(t, s, r); m.Name != "" {
		t.Errorf("without its name: %+v", m)
	}
	again, err := s.Lend(c)
	if s.Return(again); err != nil || again != name {
		t.Errorf("the same one again: %q, %v, want %q", again, err, name)
	}
	c.Subject = "b"
	foreign, err := s.Lend(c)
	if s.Return(foreign); err != nil || foreign == name {
		t.Errorf("for another subject: %q, %v", foreign, err)
	}
	c.Subject = "a"
	changes = s.Changes()
	r.Name = name
	if m := obtain(t, s, r); m.Secret.Reveal() != hidden || m.Name != name {
		t.Errorf("got %+v", m)
	}
	if got := Refused(name); strings.Contains(got, name) || !strings.Contains(got, "the pod's secret") {
		t.Errorf("refused: %s", got)
	}
	r.Subject = "b"
	if _, err := s.Obtain(t.Context(), r); err == nil || !strings.Contains(err.Error(), `"nodePublishSecretRef" is not for the subject`) {
		t.Errorf("for another subject: %v", err)
	}
	r.Subject, r.Name = "a", other
	if m := obtain(t, s, r); m.Secret.Reveal() != hidden+"1" || p.count() != 1 {
		t.Errorf("one that renews: %+v", m)
	}
	var missing *NotFoundError
	if err := s.Remove(name); !errors.As(err, &missing) {
		t.Errorf("remove: %v", err)
	}
	if err := s.Put(token(name)); err == nil {
		t.Error("a user can put the name of a lent credential")
	}
	if files, err := os.ReadDir(s.dir); err != nil || len(files) > 0 || len(s.List()) > 0 {
		t.Errorf("the directory has %v, %v, the list %v", files, err, s.List())
	}
	put(t, s, token("stored"))
	s.Return("stored")
	s.Return(name)
	s.Return(other)
	s.Return(other)
	if _, err := s.Obtain(t.Context(), r); !errors.As(err, &missing) || len(s.tokens.held) > 0 || len(s.List()) != 1 || s.Changes() == changes || len(s.lendings) > 0 {
		t.Errorf("after Return: %v, %v, %v", err, s.tokens.held, s.List())
	}
	if _, err := s.Lend(Credential{Kind: KnownHosts}); err == nil || !strings.Contains(err.Error(), "can't be lent") {
		t.Errorf("known hosts: %v", err)
	}
	c.User = ""
	if _, err := s.Lend(c); err == nil || !strings.Contains(err.Error(), "user is missing") {
		t.Errorf("a wrong one: %v", err)
	}
}

// TestConcurrentLending is for the race detector.
func TestConcurrentLending(t *testing.T) {
	t.Parallel()
	s, _, _ := renewing(t)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 20 {
				name, err := s.Lend(broker(""))
				if err != nil {
					t.Error(err)
					return
				}
				r := request(t, "https://h/o/r")
				r.Name = name
				obtain(t, s, r)
				s.Return(name)
			}
		})
	}
	all.Wait()
	if len(*s.entries.Load()) > 0 || len(s.tokens.held) > 0 {
		t.Errorf("left: %v, %v", *s.entries.Load(), s.tokens.held)
	}
}
