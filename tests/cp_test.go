package tests

import (
	"os"
	"path/filepath"
	"testing"
)

// docker cp mounts and unmounts the volume with the running container's own mount ID. The container
// must keep its tree.
func TestCopyWhileRunning(t *testing.T) {
	t.Parallel()
	e, r := shared(t), newRemote(t)
	e.create(t, subject(t), "repo="+r.url, "ref=main", "subject="+subject(t))
	c := e.sleeper(t, mount(subject(t)))
	c.sh(t, "echo mine >mine")
	dir := t.TempDir()

	for range 3 {
		e.docker(t, "cp", c.id+":/w/mine", filepath.Join(dir, "out"))
		wantFile(t, filepath.Join(dir, "out"), "mine\n")
	}
	in := filepath.Join(dir, "in")
	if err := os.WriteFile(in, []byte("given\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	e.docker(t, "cp", in, c.id+":/w/given")
	if got, want := c.sh(t, "cat mine given; git status --porcelain"), "mine\ngiven\n?? given\n?? mine"; got != want {
		t.Errorf("the container: got %q, want %q", got, want)
	}
	c.remove(t)
	e.awaitReclaimed(t, subject(t))
}

// On a stopped container docker cp gets a clean tree, and files that it writes are lost when it
// ends.
func TestCopyWhenStopped(t *testing.T) {
	t.Parallel()
	e, r := shared(t), newRemote(t)
	e.create(t, subject(t), "repo="+r.url, "ref=main", "subject="+subject(t))
	c := e.sleeper(t, mount(subject(t)))
	c.sh(t, "echo mine >README.md; echo mine >mine")
	e.docker(t, "stop", "--time", "0", c.id)

	dir := t.TempDir()
	out := filepath.Join(dir, "README.md")
	e.docker(t, "cp", c.id+":/w/README.md", out)
	wantFile(t, out, "# Sample\n\nA repository for trials.\n")
	e.wantError(t, "cp", c.id+":/w/mine", dir)
	e.docker(t, "cp", out, c.id+":/w/given")
	e.wantError(t, "cp", c.id+":/w/given", dir)
	e.awaitReclaimed(t, subject(t))

	e.docker(t, "start", c.id)
	same(t, "started again", c.sh(t, portrait), plain(t, r.url, "main"))
}

func wantFile(t *testing.T, path, want string) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil || string(got) != want {
		t.Errorf("%s: got %q, %v, want %q", filepath.Base(path), got, err, want)
	}
}
