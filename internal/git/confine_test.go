package git

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/helmdeck/repos/tests/testgit"
)

// script returns a Git whose program is a shell script, and the script's directory.
func script(t *testing.T, text string) (*Git, string) {
	t.Helper()
	path := testgit.Script(t, text)
	g, err := New(Config{Program: path, UID: fetcher, GID: fetcher + 1, Schemes: []string{"https", "http"}})
	if err != nil {
		t.Fatal(err)
	}
	return g, filepath.Dir(path)
}

// runScript runs a script as Git runs git, and returns its output.
func runScript(t *testing.T, text string, write ...string) string {
	t.Helper()
	g, dir := script(t, text)
	out, err := g.Run(t.Context(), Command{
		Op: "try", Dir: "/", UID: g.config.UID, GID: g.config.GID, Read: []string{dir, "/proc"}, Write: write, Env: []string{"EXTRA=1"},
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

func TestChildEnvironmentIsOurs(t *testing.T) {
	t.Parallel()
	t.Logf("the test's own environment has %d variables", len(os.Environ()))
	out := runScript(t, `tr '\0' '\n' < /proc/$$/environ`)
	out = strings.ReplaceAll(out, "\nglibc.", ":glibc.") // an older glibc parses its variable in place
	got := strings.Split(strings.TrimRight(out, "\n"), "\n")
	want := []string{
		"PATH=/usr/bin:/bin", "HOME=/nonexistent", "LC_ALL=C", "TZ=UTC", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_CONFIG_GLOBAL=/dev/null", "GIT_ATTR_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=/bin/false",
		"SSH_ASKPASS=/bin/false", "GIT_SSH_COMMAND=/bin/false",
		"GIT_ALLOW_PROTOCOL=", "GIT_NO_REPLACE_OBJECTS=1", "GIT_NO_LAZY_FETCH=1", allocation, "EXTRA=1",
	}
	for _, w := range want {
		found := false
		for _, g := range got {
			found = found || g == w
		}
		if !found {
			t.Errorf("%s is missing", w)
		}
	}
	for _, g := range got {
		// os/exec adds PWD for the directory.
		if g != "PWD=/" && !strings.Contains(strings.Join(want, "\n"), g) {
			t.Errorf("%s is not expected", g)
		}
	}
}
