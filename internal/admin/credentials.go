package admin

import (
	"net/http"

	"github.com/sirupsen/logrus"

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
	if err := c.Credentials.Put(cred); err != nil {
		return nil, err
	}
	c.Log.WithContext(r.Context()).WithFields(logrus.Fields{
		"name": cred.Name, "kind": cred.Kind, "scope": cred.Scope, "subject": cred.Subject,
	}).Info("credential stored")
	return nil, nil
}

func (c Config) listCredentials(*http.Request) (any, error) {
	return list{"credentials": c.Credentials.List()}, nil
}

func (c Config) removeCredential(r *http.Request) (any, error) {
	name := r.PathValue("name")
	if err := c.Credentials.Remove(name); err != nil {
		return nil, err
	}
	c.Log.WithContext(r.Context()).WithField("name", name).Info("credential removed")
	return nil, nil
}
