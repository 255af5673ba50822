package main

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/sirupsen/logrus"

	"github.com/helmdeck/repos/internal/credential"
	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/handout"
	"github.com/helmdeck/repos/internal/volume"
)

// openCredentials opens the stored credentials, and logs those that can't be used.
func openCredentials(data string, log *logrus.Logger) (*credential.Store, error) {
	store, err := credential.Open(filepath.Join(data, "credentials"))
	if err != nil {
		return nil, err
	}
	for _, c := range store.List() {
		if c.Problem != "" {
			log.WithField("credential", c.Name).Warnf("a stored credential can't be used: %s", c.Problem)
		}
	}
	return store, nil
}

// authFrom returns a function that returns the credential for a URL as git takes it. The
// packages credential and git do not know each other.
func authFrom(store *credential.Store) func(url string, s volume.Subject, name string) (*git.Auth, error) {
	return func(url string, s volume.Subject, name string) (*git.Auth, error) {
		u, err := volume.ParseURL(url, volume.AllSchemes())
		if err != nil {
			return nil, err
		}
		m, err := store.Match(u, s, name)
		if err != nil {
			return nil, err
		}
		a := &git.Auth{Name: m.Name, User: m.User, KnownHosts: []byte(m.KnownHosts)}
		switch m.Kind {
		case credential.HTTPS:
			a.Password = m.Secret.Reveal()
		case credential.Bearer:
			a.Bearer = m.Secret.Reveal()
		case credential.SSHKey:
			a.SSHKey = []byte(m.Secret.Reveal())
		case "": // only known hosts
		default:
			return nil, fmt.Errorf("credential %q has the unknown kind %q", m.Name, m.Kind)
		}
		return a, nil
	}
}

// answersFrom returns a function that returns the credential that git in a container gets.
func answersFrom(store *credential.Store) func(context.Context, handout.Question) (handout.Answer, error) {
	return func(_ context.Context, q handout.Question) (handout.Answer, error) {
		m, err := store.Match(q.Repo, q.Subject, q.Credential)
		if err != nil {
			return handout.Answer{}, err
		}
		switch m.Kind {
		case credential.HTTPS, credential.Bearer:
			return handout.Answer{Name: m.Name, User: m.User, Secret: m.Secret, Bearer: m.Kind == credential.Bearer}, nil
		case "":
			return handout.Answer{}, handout.ErrNone
		}
		return handout.Answer{Name: m.Name}, fmt.Errorf("credential %q of the kind %q is never handed out", m.Name, m.Kind)
	}
}
