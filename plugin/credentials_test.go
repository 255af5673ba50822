package main

import (
	"net/http/httptest"
	"testing"
	"time"

	"github.com/helmdeck/repos/internal/credential"
	"github.com/helmdeck/repos/internal/credential/mint"
	"github.com/helmdeck/repos/internal/git/gitserver/tokenserver"
	"github.com/helmdeck/repos/internal/volume"
	"github.com/helmdeck/repos/internal/work"
)

// TestCredentialCovers checks to which other URLs of a host a credential may be sent: those in
// the scope of a static one, and those of its repository for a secret that a provider gave.
func TestCredentialCovers(t *testing.T) {
	t.Parallel()
	service := tokenserver.NewService("s", time.Hour)
	server := httptest.NewServer(service)
	defer server.Close()
	g := work.NewGroup()
	defer g.Close()
	store, err := credential.Open(t.TempDir(), credential.Config{
		Providers: mint.New(mint.Config{}), Work: g, Report: func(err error) { t.Error(err) },
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []credential.Credential{
		{Name: "static", Kind: credential.HTTPS, Scope: "https://h/a", User: "u", Secret: credential.NewSecret("x")},
		{Name: "renews", Kind: credential.HTTPProvider, Scope: "https://h/b", URL: server.URL, Secret: credential.NewSecret("s")},
	} {
		if err := store.Put(c); err != nil {
			t.Fatal(err)
		}
	}
	auth := authFrom(store, credential.Fetch)
	for _, tt := range []struct {
		of, to string
		want   bool
	}{
		{"https://h/a/r", "https://h/a/other", true},
		{"https://h/a/r", "https://h/b/r", false},
		{"https://h/a/r", "https://other/a/r", false},
		{"https://h/b/r", "https://h/b/r.git", true},
		{"https://h/b/r.git", "https://h/b/r/info/lfs/objects/1", true},
		{"https://h/b/r", "https://h/b/r.git/info/lfs/objects/batch", true},
		{"https://h/b/r.git/info/lfs", "https://h/b/r.git/info/lfs/objects/batch", true},
		{"https://h/b/r", "https://h/b/r2", false},
		{"https://h/b/r", "https://h/b/other", false},
		{"https://h/b/r", "https://h/a/r", false},
		{"https://h/b/r", "not a URL", false},
	} {
		a, err := auth(t.Context(), tt.of, "s", "")
		if err != nil {
			t.Fatal(err)
		}
		if got := a.Covers(tt.to); got != tt.want {
			t.Errorf("the credential %q of %s is for %s: %v, want %v", a.Name, tt.of, tt.to, got, tt.want)
		}
	}

	// A secret that was held can be renewed, once; a new one and a static one can't.
	first, err := auth(t.Context(), "https://h/b/r", "s", "")
	if err != nil || first.Renew == nil {
		t.Fatalf("a secret that was held: %v, %v", first, err)
	}
	second, err := first.Renew(t.Context())
	if err != nil || second.Renew != nil || second.Password == first.Password || second.Owner != first.Owner {
		t.Errorf("a new one: %v, %v", second, err)
	}
	if static, err := auth(t.Context(), "https://h/a/r", "s", ""); err != nil || static.Renew != nil || static.Owner != "" {
		t.Errorf("a static one: %v, %v", static, err)
	}
	if _, err := authFrom(store, credential.Push)(t.Context(), "https://h/a/r", volume.Subject("s"), ""); err == nil {
		t.Error("a credential that may only fetch is used to push")
	}
}
