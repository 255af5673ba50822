package repos_test

import (
	"crypto/sha256"
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestLicense checks that the licence is the exact text of Apache-2.0, and that all that names a licence names this one.
func TestLicense(t *testing.T) {
	const apache = "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30"
	text, err := os.ReadFile("LICENSE")
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprintf("%x", sha256.Sum256(text)); got != apache {
		t.Errorf("LICENSE has the SHA-256 %s, want that of Apache-2.0, %s", got, apache)
	}
	for _, name := range []string{"README.md", "packaging/deb/copyright"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), "Apache-2.0") {
			t.Errorf("%s does not name Apache-2.0", name)
		}
	}
}
