package csi

import (
	"strings"
	"testing"

	"github.com/helmdeck/repos/tests/testpage"
)

// TestDocs checks the list of attributes on the page of the driver.
func TestDocs(t *testing.T) {
	testpage.Check(t, "../docs/reference/kubernetes.md", "attributes", "`"+strings.Join(allowed, "`, `")+"`\n")
}
