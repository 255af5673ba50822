package tests

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/helmdeck/repos/internal/admin"
	"github.com/helmdeck/repos/internal/gitserver"
)

// One workspace for two containers, reset when the last one ends.
func TestSharedVolume(t *testing.T) {
	t.Parallel()
	e, r := shared(t), newRemote(t)
	e.create(t, subject(t), "repo="+r.url, "ref=main", "mode=shared", "subject="+subject(t))
	first, second := e.sleeper(t, mount(subject(t))), e.sleeper(t, mount(subject(t)))
	first.sh(t, "echo mine >mine")
	if got := second.sh(t, "cat mine"); got != "mine" {
		t.Errorf("the second sees %q", got)
	}
	e.docker(t, "restart", "--time", "0", first.id)
	if got := first.sh(t, "cat mine"); got != "mine" {
		t.Errorf("beside the second, after its restart, the first sees %q", got)
	}
	first.remove(t)
	e.docker(t, "restart", "--time", "0", second.id)
	same(t, "alone, after a restart", second.sh(t, portrait), plain(t, r.url, "main"))
	second.remove(t)
	e.reclaimed(t, subject(t))
}

// What a volume keeps goes on through docker restart and docker cp, while the remote moves, and through the plugin's end by
// force; then it is a discard, and another volume starts from it.
func TestKeptVolume(t *testing.T) {
	t.Parallel()
	e, r := own(t, nil), newRemote(t)
	name := subject(t)
	e.create(t, name, "repo="+r.url, "ref=main", "mode=keep", "subject="+name)
	c := e.sleeper(t, mount(name))
	c.sh(t, "echo mine >mine; git add mine; git commit -qm mine; echo more >untracked; rm -rf src")
	want := c.sh(t, "git rev-parse HEAD; git status --porcelain")
	goesOn := func(when string) {
		t.Helper()
		if got := c.sh(t, "git rev-parse HEAD; git status --porcelain"); got != want {
			t.Errorf("%s: got %q, want %q", when, got, want)
		}
	}

	r.commit(t, "main", gitserver.Change{Path: "new", Content: "new\n"})
	e.docker(t, "restart", "--time", "0", c.id)
	goesOn("after docker restart")
	eventually(t, "what inspect says of the commits behind", func() error {
		got := e.docker(t, "volume", "inspect", "--format", "{{.Status.behind}} {{.Status.mode}}", name)
		if strings.TrimSpace(got) != "1 keep" {
			return fmt.Errorf("%q", got)
		}
		return nil
	})
	dir := t.TempDir()
	in := filepath.Join(dir, "in")
	if err := os.WriteFile(in, []byte("given\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	e.docker(t, "stop", "--time", "0", c.id)
	e.docker(t, "cp", in, c.id+":/w/given")
	e.docker(t, "cp", c.id+":/w/untracked", filepath.Join(dir, "out"))
	wantFile(t, filepath.Join(dir, "out"), "more\n")
	e.docker(t, "start", c.id)
	if got := c.sh(t, "cat given; rm given"); got != "given" {
		t.Errorf("what was copied when it was stopped: %q", got)
	}
	goesOn("after docker cp")

	// The container keeps what it has, and nobody gets it a second time meanwhile.
	e.disable(t)
	e.enable(t)
	if said := e.refused(t, "run", "--rm", "--network", "none", "--mount", mount(name), image, "true"); !strings.Contains(said, "a container that outlived a disabled plugin") {
		t.Errorf("beside a container that was left over: %s", said)
	}
	e.docker(t, "restart", "--time", "0", c.id)
	goesOn("after the plugin was disabled by force")
	c.remove(t)

	e.docker(t, "volume", "rm", name)
	var discards []admin.Discard
	eventually(t, "the discard", func() error {
		var err error
		discards, err = e.admin(t).Discards(t.Context())
		if err == nil && (len(discards) != 1 || discards[0].Changed == nil) {
			err = fmt.Errorf("%+v", discards)
		}
		return err
	})
	d := discards[0]
	if d.Volume != name || d.Subject != name || d.Repo != r.url || d.Bytes == nil || *d.Changed < 3 {
		t.Errorf("%+v", d)
	}
	e.create(t, name+"-again", "repo="+r.url, "subject="+name, "restore="+d.ID)
	c = e.sleeper(t, mount(name+"-again"))
	goesOn("restored")
	c.remove(t)
	e.docker(t, "volume", "rm", name+"-again")
	e.reclaimed(t, name)
}
