package tests

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/helmdeck/repos/tests/dockerd"
	"github.com/helmdeck/repos/tests/testgit"
)

// The plugin refuses options that cannot work at once and says why. It leaves no volume, directory,
// mount or process behind.
func TestErrors(t *testing.T) {
	t.Parallel()
	e, r := own(t, nil), newRemote(t)
	closed := "http://" + testgit.Refusing(t) + "/app"
	before := e.dataNames(t)
	cases := []struct {
		name    string
		options []string
		want    []string // words that the message must contain
		never   string   // a text that it must not contain
	}{
		{"unknown option", []string{"repo=" + r.url, "colour=red"}, []string{"colour", "repo", "ref", "subject"}, ""},
		{"no repo", nil, []string{"repo"}, ""},
		{"no repo but a ref", []string{"ref=main"}, []string{"repo"}, ""},
		{"wrong mode", []string{"repo=" + r.url, "mode=wild"}, []string{"mode", "wild", "private"}, ""},
		{"wrong cache", []string{"repo=" + r.url, "cache=maybe"}, []string{"cache", "maybe", "shared", "off"}, ""},
		{"wrong uid", []string{"repo=" + r.url, "uid=ada"}, []string{"uid", "ada"}, ""},
		{"wrong refresh", []string{"repo=" + r.url, "refresh=often"}, []string{"refresh", "often", "always", "never"}, ""},
		{"missing repository", []string{"repo=" + r.URL("nothing")}, []string{r.URL("nothing"), "not found"}, ""},
		{"missing ref", []string{"repo=" + r.url, "ref=nothing"}, []string{"nothing", r.url}, ""},
		{"refused connection", []string{"repo=" + closed}, []string{closed, "refused"}, ""},
		{"file", []string{"repo=file:///etc"}, []string{"file", "https"}, ""},
		{"path", []string{"repo=/etc"}, []string{"/etc"}, ""},
		{"program", []string{"repo=ext::sh -c id"}, []string{"ext"}, "uid=0"},
		{"option as repo", []string{"repo=--upload-pack=x"}, []string{"--upload-pack=x"}, ""},
		{"option as ref", []string{"repo=" + r.url, "ref=--upload-pack=x"}, []string{"ref", "--upload-pack=x"}, ""},
		{"password", []string{"repo=https://user:hunter2@127.0.0.1/x"}, []string{"repo"}, "hunter2"},
		{"token", []string{"repo=https://ghp_hunter2hunter2hunter2hunter2hunter2h@127.0.0.1/x"}, []string{"repo"}, "hunter2"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			name := subject(t)
			options := append([]string{"subject=" + name}, c.options...)
			said := e.wantError(t, append([]string{"volume", "create"}, createArgs(name, options...)...)...)
			// The message repeats the command before the engine's answer.
			_, answer, _ := strings.Cut(said, "\n")
			for _, want := range c.want {
				if !strings.Contains(answer, want) {
					t.Errorf("the message does not name %q: %s", want, answer)
				}
			}
			if c.never != "" && strings.Contains(answer, c.never) {
				t.Errorf("the message contains %q: %s", c.never, answer)
			}
			if volumes := e.volumes(t); slices.Contains(volumes, name) {
				t.Errorf("the volume exists: %q", volumes)
			}
			if dirs := e.clones(t, name); len(dirs) > 0 {
				t.Errorf("clones exist: %q", dirs)
			}
			// The same with docker run, without creating a volume first.
			if strings.Contains(strings.Join(options, ""), ",") {
				return
			}
			e.wantError(t, shArgs(mount("", options...), "true")...)
			for _, id := range strings.Fields(e.docker(t, "ps", "--all", "--quiet")) {
				e.docker(t, "rm", "--force", "--volumes", id) // docker run leaves the container, which never started
			}
		})
	}
	e.awaitUnmounted(t)
	e.awaitEmpty(t, "trash")
	e.awaitEmpty(t, "clones")
	if got := e.dataNames(t); !slices.Equal(got, before) {
		t.Errorf("the plugin's data: got %q, before %q", got, before)
	}
	if got := e.volumes(t); len(got) != 0 {
		t.Errorf("volumes: got %q, want none", got)
	}
	if got := dockerd.Tail(e.Path("log"), 5, func(line string) bool {
		return strings.Contains(line, " plugin=") && strings.Contains(line, "hunter2")
	}); got != "" {
		t.Errorf("the plugin's log contains a password: %s", got)
	}
	e.awaitNoChildren(t)
}

// Only a fetch can find out whether a commit exists. Create accepts an unknown commit, and Mount
// says that it is missing.
func TestMissingCommit(t *testing.T) {
	t.Parallel()
	e, r := shared(t), newRemote(t)
	commit := strings.Repeat("ab", 20)
	t.Cleanup(func() { e.Try("volume", "rm", "--force", subject(t)) })
	said := e.wantError(t, shArgs(mount(subject(t), "repo="+r.url, "ref="+commit, "subject="+subject(t)), "true")...)
	if _, answer, _ := strings.Cut(said, "\n"); !strings.Contains(answer, commit) {
		t.Errorf("the message does not name the commit: %s", answer)
	}
	e.awaitReclaimed(t, subject(t))
}

// dataNames returns the names in the plugin's data directory.
func (e *engine) dataNames(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir(e.Data())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}
