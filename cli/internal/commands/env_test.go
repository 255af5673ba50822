package commands

import (
	"strings"
	"testing"
)

// TestEnvService checks that a flag that would do nothing is an error.
func TestEnvService(t *testing.T) {
	args := "env --target /w --repo https://h/x --service test"
	if got := (fake{}).run(t, "", strings.Fields(args)...); got.failed == nil || got.failed.Error() != "--service is for --for compose" {
		t.Errorf("got %q and %v", got.out, got.failed)
	}
	if got := (fake{}).run(t, "", strings.Fields(args+" --for compose")...); got.failed != nil || !strings.Contains(got.out, `"test":`) {
		t.Errorf("with --for compose: got %q and %v", got.out, got.failed)
	}
}
