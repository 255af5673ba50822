package credential

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"errors"
	"strings"
	"testing"
)

func appKey(t *testing.T, bits int) string {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		t.Fatal(err)
	}
	return pemText("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(key), nil)
}

func TestPutProviders(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	key := appKey(t, 2048)
	app := Credential{Name: "a", Kind: GitHubApp, Scope: "https://github.com/org", AppID: "Iv23.x-1", Secret: NewSecret(key)}
	service := broker("a")
	for _, tt := range []struct {
		name        string
		of          Credential
		change      func(c *Credential)
		field, want string
	}{
		{"app", app, nil, "", "https://api.github.com"},
		{"app of another host", app, func(c *Credential) { c.Scope = "https://git.example.com:8443" }, "", "https://git.example.com:8443/api/v3"},
		{"app with an API", app, func(c *Credential) { c.API = "https://api.example.com/v3/" }, "", "https://api.example.com/v3"},
		{"app with an API on the loopback", app, func(c *Credential) { c.API = "http://[::1]:8080" }, "", "http://[::1]:8080"},
		{"app for pushes", app, func(c *Credential) { c.Allow = Push }, "", "https://api.github.com"},
		{"app with CRLF", app, func(c *Credential) { c.Secret = NewSecret(strings.ReplaceAll(key, "\n", "\r\n")) }, "", "https://api.github.com"},
		{"app over http", app, func(c *Credential) { c.Scope = "http://127.0.0.1:1" }, "api", "only a scope with https has a default"},
		{"app over ssh", app, func(c *Credential) { c.Scope = "ssh://git@github.com" }, "scope", "does not fit the kind"},
		{"app without an ID", app, func(c *Credential) { c.AppID = "" }, "app_id", "is missing"},
		{"app with a wrong ID", app, func(c *Credential) { c.AppID = "1\n" }, "app_id", "is not the ID of an app"},
		{"app with a user", app, func(c *Credential) { c.User = "u" }, "user", "only for the kind https"},
		{"app with a token", app, func(c *Credential) { c.Secret = NewSecret(hidden) }, "secret", "is not a private key in PEM format"},
		{"app with a short key", app, func(c *Credential) { c.Secret = NewSecret(appKey(t, 1024)) }, "secret", "RSA key of 2048 bits or more"},
		{"app with an ssh key", app, func(c *Credential) { c.Secret = NewSecret(openSSH(t, newKey(t))) }, "secret", "RSA key of 2048 bits or more"},
		{"app with a provider's URL", app, func(c *Credential) { c.URL = "https://b" }, "url", "only for the kind http"},
		{"service", service, nil, "", "https://broker/x"},
		{"service on the loopback", service, func(c *Credential) { c.URL = "http://localhost:1/x" }, "", "http://localhost:1/x"},
		{"service over http", service, func(c *Credential) { c.URL = "http://broker/x" }, "url", "http with a loopback address"},
		{"service over http, far", service, func(c *Credential) { c.URL = "http://10.0.0.1/x" }, "url", "http with a loopback address"},
		{"service over ftp", service, func(c *Credential) { c.URL = "ftp://broker/x" }, "url", "neither the scheme https"},
		{"no URL", service, func(c *Credential) { c.URL = "" }, "url", "is missing"},
		{"a word as URL", service, func(c *Credential) { c.URL = "broker" }, "url", ""},
		{"a URL without a host", service, func(c *Credential) { c.URL = "https:///x" }, "url", "is not a URL"},
		{"a password in the URL", service, func(c *Credential) { c.URL = "https://u:" + hidden + "@b" }, "url", "has a user"},
		{"a query in the URL", service, func(c *Credential) { c.URL = "https://b?t=" + hidden }, "url", "a query"},
		{"a long URL", service, func(c *Credential) { c.URL = "https://b/" + strings.Repeat("x", 2048) }, "url", "at most 2048 bytes"},
		{"no secret", service, func(c *Credential) { c.Secret = Secret{} }, "secret", "is missing"},
		{"a secret that no header has", service, func(c *Credential) { c.Secret = NewSecret(hidden + " x") }, "secret", "is not a bearer token"},
		{"service with an ID", service, func(c *Credential) { c.AppID = "1" }, "app_id", "only for the kind github-app"},
		{"service with an API", service, func(c *Credential) { c.API = "https://b" }, "api", "only for the kind github-app"},
		{"unknown access", service, func(c *Credential) { c.Allow = "all" }, "allow", "allowed: fetch, push"},
	} {
		c := tt.of
		if tt.change != nil {
			tt.change(&c)
		}
		err := s.Put(c)
		var wrong *InvalidError
		switch {
		case tt.field == "" && (err != nil || s.List()[0].Provider != tt.want):
			t.Errorf("%s: %v, %+v, want the provider %q", tt.name, err, s.List(), tt.want)
		case tt.field != "" && (!errors.As(err, &wrong) || wrong.Field != tt.field || !strings.Contains(wrong.Problem, tt.want)):
			t.Errorf("%s: got %v, want %s: %s", tt.name, err, tt.field, tt.want)
		case err != nil:
			shows(t, tt.name, err.Error())
		}
	}
	hosts := Credential{Name: "k", Kind: KnownHosts, Scope: "ssh://h", Allow: Push, Secret: NewSecret("x")}
	if err := s.Put(hosts); err == nil || !strings.Contains(err.Error(), "allow is not for the kind known-hosts") {
		t.Errorf("known hosts: %v", err)
	}
}
