package remotes

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/helmdeck/repos/tests/testgit"
)

// TestPullRequestsAreNotFetched clones a repository with 20,000 commits on its branch and 10,000 pull
// requests, most of whose data belong to the pull requests. The plugin must not transfer these.
func TestPullRequestsAreNotFetched(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	t.Parallel()
	s := serve(t)
	const repo = "team/busy"
	testgit.GitAny(t, "/", "-c", "init.defaultBranch=main", "init", "-q", "--bare", s.Path(repo))
	manyRefs(t, s.Path(repo), 20_000, 10_000)

	transferred := func(what string, clone func() error) int64 {
		s.Reset()
		if err := clone(); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		return s.Stats(repo).BytesOut
	}
	dir := t.TempDir()
	plain := transferred("plain", func() error {
		return exec.Command("git", "clone", "-q", s.URL(repo), filepath.Join(dir, "plain")).Run()
	})
	mirror := transferred("mirror", func() error {
		return exec.Command("git", "clone", "-q", "--mirror", s.URL(repo), filepath.Join(dir, "mirror")).Run()
	})
	p := start(t)
	ours := transferred("ours", func() error { return p.createAndCheck("v", "", "repo="+s.URL(repo)) })
	again := transferred("again", func() error { return p.mountAndCheck("v", "") })
	addLine("bytes: 10,000 pulls, 20,000 commits", fmt.Sprintf("ours %d, git clone %d, git clone --mirror %d; a mount with nothing new %d", ours, plain, mirror, again))
	if ours > plain+plain/20 || ours > mirror*2/3 || again > 2000 {
		t.Errorf("the plugin transferred %d bytes and then %d; git clone %d, git clone --mirror %d", ours, again, plain, mirror)
	}
}

// manyRefs makes a branch with so many commits, and so many pull requests with one commit each.
func manyRefs(t *testing.T, path string, commits, pulls int) {
	t.Helper()
	cmd := exec.Command("git", "--git-dir", path, "-c", "fastimport.unpackLimit=0", "fast-import", "--quiet", "--done")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w := bufio.NewWriter(in)
	commit := func(ref string, mark, from int, content string) {
		fmt.Fprintf(w, "commit %s\nmark :%d\ncommitter t <t@t> %d +0000\ndata 1\nx\n", ref, mark, 1_700_000_000+mark)
		if from > 0 {
			fmt.Fprintf(w, "from :%d\n", from)
		}
		fmt.Fprintf(w, "M 100644 inline dir%d/file\ndata %d\n%s\n", mark%50, len(content), content)
	}
	for i := 1; i <= commits; i++ {
		commit("refs/heads/main", i, i-1, fmt.Sprintf("version %d of a file\n", i))
	}
	text := noise(400)
	for i := 1; i <= pulls; i++ {
		commit(fmt.Sprintf("refs/pull/%d/head", i), commits+i, i, fmt.Sprintf("%d%s%s", i, text[i%300:], text[:i%300]))
	}
	_, err = io.WriteString(w, "done\n")
	if err := errors.Join(err, w.Flush(), in.Close(), cmd.Wait()); err != nil {
		t.Fatal(err)
	}
}
