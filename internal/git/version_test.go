package git

import (
	"strings"
	"testing"
)

func TestOlder(t *testing.T) {
	for _, c := range []struct {
		version string
		want    bool
	}{
		{"2.39.5", false}, {"2.39", false}, {"2.47.3", false}, {"3.0", false}, {"2.50.1 (Apple Git-155)", false},
		{"2.38.9", true}, {"2.9.5", true}, {"1.99", true}, {"unknown", false}, {"", false},
	} {
		if got := older(c.version, oldest); got != c.want {
			t.Errorf("older(%q, %q): got %t", c.version, oldest, got)
		}
	}
}

// tests/deb tests that the service refuses an older git.
func TestCheckVersion(t *testing.T) {
	withBothGits(t, func(t *testing.T, g *Git) {
		if version, err := g.CheckVersion(t.Context()); err != nil || !strings.HasPrefix(version, "2.") {
			t.Errorf("got %q, %v", version, err)
		}
	})
}
