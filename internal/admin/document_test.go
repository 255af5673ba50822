package admin

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/credential"
	"github.com/helmdeck/repos/tests/testapi"
)

// TestDocumentHasTheRoutes checks that the document has exactly the routes that are
// registered, with their parameters in the path.
func TestDocumentHasTheRoutes(t *testing.T) {
	var documented []string
	for path, item := range testapi.Document(t).Paths.Map() {
		for method, op := range item.Operations() {
			documented = append(documented, method+" "+path)
			for _, p := range op.Parameters {
				if in := strings.Contains(path, "{"+p.Value.Name+"}"); in != (p.Value.In == "path") {
					t.Errorf("%s %s: the parameter %q is in the %s", method, path, p.Value.Name, p.Value.In)
				}
			}
			for _, part := range strings.Split(path, "/") {
				name, ok := strings.CutPrefix(part, "{")
				if ok && op.Parameters.GetByInAndName("path", strings.TrimSuffix(name, "}")) == nil {
					t.Errorf("%s %s: %s is not described", method, path, part)
				}
			}
		}
	}
	slices.Sort(documented)
	if registered := slices.Sorted(maps.Keys(Config{}.routes())); !slices.Equal(registered, documented) {
		t.Errorf("registered are\n%q, the document has\n%q", registered, documented)
	}
}

// TestCredentialKinds: the document and the client have the kinds that can be stored. The CLI takes
// them from the client.
func TestCredentialKinds(t *testing.T) {
	err := store(t).Put(credential.Credential{Name: "c", Kind: "unknown", Scope: "https://h"})
	if err == nil {
		t.Fatal("an unknown kind was stored")
	}
	_, allowed, _ := strings.Cut(err.Error(), "allowed: ")
	want := strings.Split(allowed, ", ")
	if got := api.CredentialKinds(); !slices.Equal(got, want) {
		t.Errorf("the client has %q, want %q", got, want)
	}
	var documented []string
	for _, kind := range testapi.Document(t).Components.Schemas["PutCredential"].Value.Properties["kind"].Value.Enum {
		documented = append(documented, kind.(string))
	}
	if !slices.Equal(documented, want) {
		t.Errorf("the document has %q, want %q", documented, want)
	}
}
