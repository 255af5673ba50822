package tests

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// The commands of docs/how-to/remove.md list the plugin's volumes, and remove the anonymous volumes that
// `docker container prune` leaves, but no others.
func TestTidyUp(t *testing.T) {
	t.Parallel()
	e, r := own(t, nil), newRemote(t)
	e.create(t, "named", "repo="+r.url, "subject="+subject(t))
	e.docker(t, "run", "--network", "host", "--mount", mount("", "repo="+r.url, "subject="+subject(t)), image, "true")
	busy := e.sleeper(t, mount("", "repo="+r.url, "subject="+subject(t)))
	inUse := parseStamp(t, busy.sh(t, printStamp)).Volume
	e.docker(t, "container", "prune", "--force")

	list := removeLine(t, "docker volume ls --filter driver=")
	if got := len(strings.Fields(e.shell(t, list+" --quiet"))); got != 3 {
		t.Errorf("%s: %d volumes, want 3: a named one, one in use and one that prune left", list, got)
	}
	e.shell(t, removeLine(t, "docker volume ls --quiet --filter driver="))
	got, want := e.volumes(t), []string{"named", inUse}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("volumes: got %q, want %q", got, want)
	}
}

// removeLine returns the line of docs/how-to/remove.md with a beginning.
func removeLine(t *testing.T, begin string) string {
	t.Helper()
	return lineOf(t, "../docs/how-to/remove.md", begin)
}

// lineOf returns the first line of a file with a beginning.
func lineOf(t *testing.T, file, begin string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, begin) {
			return strings.TrimSpace(line)
		}
	}
	t.Fatalf("%s has no line that begins with %q", file, begin)
	return ""
}

// shell runs a shell command as a user types it, with docker connected to the engine.
func (e *engine) shell(t *testing.T, line string) string {
	t.Helper()
	cmd := e.Command()
	cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-ec", line}
	cmd.Err = nil
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", line, err, out)
	}
	return strings.TrimSpace(string(out))
}
