package admin

import (
	"cmp"
	"net/http"

	"github.com/sirupsen/logrus"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/credential"
)

// Credentials is the part of *credential.Store that the API uses.
type Credentials interface {
	Put(credential.Credential) error
	List() []credential.Info
	Remove(name string) error
}

func (c Config) putCredential(r *http.Request) (any, error) {
	cred, err := decode[credential.Credential](r)
	if err != nil {
		return nil, err
	}
	cred.Name = r.PathValue("name")
	note(r, func(rec *api.AuditRecord) {
		rec.Kind, rec.Scope, rec.Subject, rec.Allow = string(cred.Kind), cred.Scope, string(cred.Subject), string(cred.Allow)
	})
	if err := c.Credentials.Put(cred); err != nil {
		return nil, err
	}
	c.Log.WithContext(r.Context()).WithFields(logrus.Fields{
		"name": cred.Name, "kind": cred.Kind, "scope": cred.Scope, "subject": cred.Subject, "allow": cmp.Or(cred.Allow, credential.Fetch),
	}).Info("credential stored")
	return nil, nil
}

func (c Config) listCredentials(r *http.Request) (any, error) {
	credentials := []api.Credential{}
	for _, i := range c.Credentials.List() {
		c := api.Credential{
			Name: i.Name, Kind: string(i.Kind), Scope: i.Scope, Subject: string(i.Subject), User: i.User, Allow: string(i.Allow), AppID: i.AppID,
			Provider: i.Provider, Failed: i.Failed, Fingerprints: i.Fingerprints, Problem: i.Problem,
		}
		if !i.Expires.IsZero() {
			c.ExpiresAt = &i.Expires
		}
		credentials = append(credentials, c)
	}
	return page(r, "credentials", credentials, func(c api.Credential) string { return c.Name }, columns[api.Credential]{
		"subject": func(c api.Credential) string { return c.Subject },
	})
}

func (c Config) removeCredential(r *http.Request) (any, error) {
	name := r.PathValue("name")
	if err := c.Credentials.Remove(name); err != nil {
		return nil, err
	}
	c.Log.WithContext(r.Context()).WithField("name", name).Info("credential removed")
	return nil, nil
}
