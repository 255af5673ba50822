package commands

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/helmdeck/repos/api"
)

func TestCredentialsWithProvider(t *testing.T) {
	key := "-----BEGIN KEY-----\nabc\n-----END KEY-----\n"
	for _, c := range []struct {
		input, args string
		want        api.PutCredential
	}{
		{key, "--scope https://h --kind github-app --app-id 12 --api https://h/api --allow push", api.PutCredential{
			Kind: "github-app", Scope: "https://h", AppID: "12", API: "https://h/api", Allow: "push", Secret: key,
		}},
		{"t", "--scope https://h --kind http --url http://127.0.0.1:1", api.PutCredential{Kind: "http", Scope: "https://h", URL: "http://127.0.0.1:1", Secret: "t"}},
	} {
		got := fake{"PUT /v1/credentials/name": body(t, c.want)}.run(t, c.input, append([]string{"credentials", "put", "name"}, strings.Fields(c.args)...)...)
		if got.failed != nil || got.out != "name\n" {
			t.Errorf("%s: got %q and %v", c.args, got.out, got.failed)
		}
	}

	ends := time.Now().Add(50*time.Minute + time.Second)
	list := map[string]any{"credentials": []api.Credential{
		{Name: "app", Kind: "github-app", Allow: "push", Scope: "https://h/o", AppID: "12", Provider: "https://h/api", ExpiresAt: &ends},
		{Name: "broker", Kind: "http", Allow: "fetch", Scope: "https://g", Provider: "https://b", Failed: "timeout"},
	}}
	got := fake{"GET /v1/credentials": list}.run(t, "", "credentials", "ls", "--format", "{{.Name}} {{.Allow}} {{.AppID}} {{.Provider}} {{.Expires}} {{.Problem}}")
	if want := "app push 12 https://h/api in 50 minutes \nbroker fetch  https://b  timeout\n"; got.failed != nil || got.out != want {
		t.Errorf("got %q, %v, want %q", got.out, got.failed, want)
	}
}

// TestCredentialKinds: the help of put says what each kind is.
func TestCredentialKinds(t *testing.T) {
	help := newCredentialsPut(nil).Long
	for _, kind := range api.CredentialKinds() {
		if !regexp.MustCompile(`\b` + kind + ` \(`).MatchString(help) {
			t.Errorf("the kind %s is not explained in\n%s", kind, help)
		}
	}
}
