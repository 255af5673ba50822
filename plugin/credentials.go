package main

import (
	"fmt"
	"path/filepath"

	"github.com/sirupsen/logrus"

	"github.com/helmdeck/repos/internal/credential"
	"github.com/helmdeck/repos/internal/git"
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
