package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/sirupsen/logrus"

	"github.com/helmdeck/repos/internal/credential"
	"github.com/helmdeck/repos/internal/credential/mint"
	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/volume"
)

// openCredentials opens the stored credentials, and logs those that can't be used.
func openCredentials(m machine, log *logrus.Logger) (*credential.Store, error) {
	certificates, proxy, stall := m.git.HTTP()
	now := m.at.clock()
	store, err := credential.Open(filepath.Join(m.at.data, "credentials"), credential.Config{
		Providers: mint.New(mint.Config{TLS: certificates, Proxy: proxy, Timeout: stall, Now: now}),
		Work:      m.work, Now: now, Report: func(err error) { log.Error(err) },
	})
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

// authFrom returns a function that returns the credential for access to a URL as git takes
// it. The packages credential and git do not know each other.
func authFrom(store *credential.Store, access credential.Access) func(ctx context.Context, url string, s volume.Subject, name string) (*git.Auth, error) {
	return func(ctx context.Context, url string, s volume.Subject, name string) (*git.Auth, error) {
		u, err := volume.ParseURL(url, volume.AllSchemes())
		if err != nil {
			return nil, err
		}
		return obtain(ctx, store, credential.Request{URL: u, Subject: s, Name: name, Access: access})
	}
}

func obtain(ctx context.Context, store *credential.Store, r credential.Request) (*git.Auth, error) {
	m, err := store.Obtain(ctx, r)
	if err != nil {
		return nil, err
	}
	a := &git.Auth{Name: m.Name, User: m.User, KnownHosts: []byte(m.KnownHosts), Owner: m.Owner}
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
	a.Covers = func(url string) bool { // a scope may be a part of a host
		u, err := volume.ParseURL(url, volume.AllSchemes())
		if err != nil {
			return false
		}
		other, err := store.Match(u, r.Subject, r.Name, r.Access)
		return err == nil && other.Name == m.Name && (m.Repository == "" || isBelow(u, m.Repository))
	}
	if m.Held {
		a.Renew = func(ctx context.Context) (*git.Auth, error) {
			r.Refused = m.Secret
			return obtain(ctx, store, r)
		}
	}
	return a, nil
}

// isBelow reports whether u is a URL of a repository, as volume.URL.Normalized returns that,
// or one below it.
func isBelow(u volume.URL, repository string) bool {
	rest, ok := strings.CutPrefix(u.Normalized(), repository)
	return ok && (rest == "" || rest[0] == '/' || strings.HasPrefix(rest, ".git/"))
}
