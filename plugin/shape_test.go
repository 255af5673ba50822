package main

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/helmdeck/repos/internal/gitserver"
)

// same compares what git says in two work trees.
func same(t *testing.T, got, want string, commands ...string) {
	t.Helper()
	for _, c := range commands {
		args := strings.Fields(c)
		if got, want := gitIn(t, got, args...), gitIn(t, want, args...); got != want {
			t.Errorf("git %s\n got %s\nwant %s", c, got, want)
		}
	}
}

// plainClone is what git itself makes of a repository.
func plainClone(t *testing.T, url string, options ...string) string {
	t.Helper()
	dir := filepath.Join(scratch(t), "plain")
	gitIn(t, "/", append(append([]string{"clone", "-q"}, options...), url, dir)...)
	return dir
}

// content reads a file, empty if it is not there.
func content(t *testing.T, path ...string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(path...))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return string(data)
}

func sortedLines(s string) []string {
	return slices.Sorted(strings.SplitSeq(strings.TrimSpace(s), "\n"))
}

// missing lists the objects of all refs that a partial clone does not have.
func missing(t *testing.T, dir string, revs ...string) []string {
	t.Helper()
	var ids []string
	out := gitIn(t, dir, append([]string{"rev-list", "--objects", "--missing=print"}, revs...)...)
	for line := range strings.Lines(out) {
		if id, ok := strings.CutPrefix(strings.TrimSpace(line), "?"); ok {
			ids = append(ids, id)
		}
	}
	return ids
}

// clean fails the test if git status has something to say.
func clean(t *testing.T, dir string) {
	t.Helper()
	if got := gitIn(t, dir, "status", "--porcelain"); got != "" {
		t.Errorf("status of %s: %q, want clean", dir, got)
	}
}

func TestDepthIsThatOfGitClone(t *testing.T) {
	s := remote(t)
	p := start(t, scratch(t))
	url := s.URL("sample")
	p.create("full", map[string]string{"repo": url})
	full := p.mount("full", "1")
	for _, depth := range []int{1, 3, 1000} {
		name := "depth" + strconv.Itoa(depth)
		p.create(name, map[string]string{"repo": url, "depth": strconv.Itoa(depth)})
		dir := p.mount(name, "1")
		plain := plainClone(t, url, "--no-single-branch", "--depth", strconv.Itoa(depth))
		clean(t, dir)
		same(t, dir, plain, "rev-parse HEAD", "symbolic-ref HEAD", "for-each-ref", "ls-files -s",
			"rev-list --all", "rev-parse --is-shallow-repository", "fsck --full --strict")
		if got, want := sortedLines(content(t, dir, ".git/shallow")), sortedLines(content(t, plain, ".git/shallow")); !slices.Equal(got, want) {
			t.Errorf("depth %d: shallow %q, want %q", depth, got, want)
		}
	}

	// A shallow fetch next door leaves the full history whole.
	pushed, err := gitserver.Commit(s.Path("sample"), "main", gitserver.Change{Path: "pushed", Content: "x"})
	if err != nil {
		t.Fatal(err)
	}
	shallow := p.mount("depth1", "2")
	if got := gitIn(t, shallow, "log", "--format=%H"); got != pushed {
		t.Errorf("log after a push: %s, want %s alone", got, pushed)
	}
	again := p.mount("full", "2")
	same(t, again, plainClone(t, url), "rev-list --all", "for-each-ref", "rev-parse --is-shallow-repository", "fsck --full")
	if got, want := gitIn(t, full, "rev-list", "--count", "HEAD"), "6"; got != want {
		t.Errorf("the first full workspace has %s commits now, want %s", got, want)
	}

	// The container can have the rest.
	gitIn(t, shallow, "fetch", "-q", "--unshallow")
	same(t, shallow, again, "rev-list --all", "rev-parse --is-shallow-repository")
	older := p.mount("depth3", "2")
	gitIn(t, older, "commit", "-q", "--allow-empty", "-m", "mine")
	gitIn(t, older, "push", "-q", "origin", "HEAD:mine")
	if got, want := gitIn(t, s.Path("sample"), "rev-parse", "mine"), gitIn(t, older, "rev-parse", "HEAD"); got != want {
		t.Errorf("pushed %s, want %s", got, want)
	}
}

// protocol0 is a server that knows no other protocol: it serves what it has advertised.
func protocol0(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Del("Git-Protocol")
		next.ServeHTTP(w, r)
	})
}

func TestDepthAndACommitThatIsDeeper(t *testing.T) {
	s := remote(t)
	url := s.URL("sample")
	old := gitIn(t, s.Path("sample"), "rev-parse", "main~3")
	t.Run("by name", func(t *testing.T) {
		p := start(t, scratch(t))
		p.create("v", map[string]string{"repo": url, "depth": "1", "ref": old})
		dir := p.mount("v", "1")
		if got := gitIn(t, dir, "log", "--format=%H"); got != old {
			t.Errorf("log: %s, want %s alone", got, old)
		}
		clean(t, dir)
	})
	for _, c := range []struct {
		name, ref string
	}{
		{"a full one that the remote refuses to name", old},
		{"an abbreviated one", old[:12]},
	} {
		t.Run(c.name, func(t *testing.T) {
			s.Wrap(protocol0)
			defer s.Wrap(nil)
			p := start(t, scratch(t))
			p.create("v", map[string]string{"repo": url, "depth": "1", "ref": c.ref})
			err := p.tryMount("v", "1")
			if err == nil || !strings.Contains(err.Error(), "ref not found") || !strings.Contains(err.Error(), "depth greater than 1") {
				t.Errorf("mount: %v, want ref not found and a word on the depth", err)
			}
			p.create("full", map[string]string{"repo": url, "ref": c.ref})
			if got := gitIn(t, p.mount("full", "1"), "rev-parse", "HEAD"); got != old {
				t.Errorf("full history: at %s, want %s", got, old)
			}
		})
	}
}

func TestFilterLeavesBlobsAtTheRemote(t *testing.T) {
	s := remote(t)
	url := s.URL("sample")
	if err := s.Configure("sample", "uploadpack.allowFilter", "true"); err != nil {
		t.Fatal(err)
	}
	p := start(t, scratch(t))
	p.create("v", map[string]string{"repo": url, "filter": "blob:none"})
	dir := p.mount("v", "1")
	if n := s.Stats("sample").Fetches; n > 4 {
		t.Errorf("%d rounds of fetching, want one for the history and one for the files", n)
	}
	plain := plainClone(t, url, "--filter=blob:none")
	same(t, dir, plain, "rev-parse HEAD", "for-each-ref", "ls-files -s", "config remote.origin.promisor",
		"config remote.origin.partialclonefilter", "config core.repositoryformatversion", "fsck --connectivity-only")
	if got, want := missing(t, dir, "--all"), missing(t, plain, "--all"); len(got) == 0 || !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))) {
		t.Errorf("%d objects are missing, want the %d that git clone leaves", len(got), len(want))
	}

	// What is checked out is here: nobody asks for it.
	s.Reset()
	clean(t, dir)
	gitIn(t, dir, "grep", "-q", "-e", "the", "HEAD")
	if n := s.Stats("sample").Fetches; n != 0 {
		t.Errorf("%d fetches for what is checked out, want none", n)
	}
	// The rest comes when it is needed.
	gitIn(t, dir, "log", "-p", "--all")
	if n := s.Stats("sample").Fetches; n == 0 {
		t.Error("log -p fetched nothing")
	}
	if got := missing(t, dir, "--all"); len(got) != 0 {
		t.Errorf("%d objects are missing after log -p, want none", len(got))
	}
	gitIn(t, dir, "commit", "-q", "--allow-empty", "-m", "mine")
	gitIn(t, dir, "push", "-q", "origin", "HEAD:mine")

	pushed, err := gitserver.Commit(s.Path("sample"), "main", gitserver.Change{Path: "pushed", Content: "x"})
	if err != nil {
		t.Fatal(err)
	}
	next := p.mount("v", "2")
	clean(t, next)
	if got := gitIn(t, next, "rev-parse", "HEAD"); got != pushed {
		t.Errorf("after a push: at %s, want %s", got, pushed)
	}
	if got, _ := p.get("v").Status["filter"].(string); !strings.HasPrefix(got, "blob:none: ") {
		t.Errorf("Status has filter %q", got)
	}
	for _, store := range p.glob("clones/*/*/store/*.git") {
		if got := filepath.Base(store); got != "blob-none.git" {
			t.Errorf("store %s, want blob-none.git alone", got)
		}
		if got := content(t, store, "config"); strings.Contains(got, "promisor") || strings.Contains(got, "remote") {
			t.Errorf("the store knows a remote to fetch from:\n%s", got)
		}
	}
}

func TestShapesOfAnotherUser(t *testing.T) {
	s := remote(t)
	if err := s.Configure("sample", "uploadpack.allowFilter", "true"); err != nil {
		t.Fatal(err)
	}
	p := start(t, scratch(t))
	p.create("v", map[string]string{
		"repo": s.URL("sample"), "filter": "blob:none", "depth": "3", "sparse": "docs", "uid": "1000", "gid": "1000",
	})
	dir := p.mount("v", "1")
	// The engine mounts it where the user can get to.
	for up := filepath.Dir(dir); up != p.at.data; up = filepath.Dir(up) {
		if err := os.Chmod(up, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{
		{"status", "--porcelain"}, {"log", "-p", "--all"}, {"sparse-checkout", "add", "src"}, {"fetch", "-q", "--unshallow"},
		{"commit", "-q", "--allow-empty", "-m", "mine"}, {"push", "-q", "origin", "HEAD:mine"},
		{"sparse-checkout", "disable"}, {"repack", "-q", "-a", "-d"}, {"status", "--porcelain"},
	} {
		got := gitAs(t, 1000, dir, args...)
		if args[0] == "status" && got != "" {
			t.Errorf("status: %q, want clean", got)
		}
	}
}

func TestFilterBesideAFullHistory(t *testing.T) {
	s := remote(t)
	url := s.URL("sample")
	if err := s.Configure("sample", "uploadpack.allowFilter", "true"); err != nil {
		t.Fatal(err)
	}
	p := start(t, scratch(t))
	p.create("full", map[string]string{"repo": url})
	p.create("shallow", map[string]string{"repo": url, "filter": "blob:none", "depth": "2"})
	p.create("v", map[string]string{"repo": url, "filter": "blob:none"})
	p.mount("full", "1")
	for _, name := range []string{"shallow", "v"} {
		dir := p.mount(name, "1")
		s.Reset()
		// The tree was there; its files' contents are in this store as well.
		gitIn(t, dir, "rm", "-rqf", ".")
		gitIn(t, dir, "reset", "-q", "--hard")
		if n := s.Stats("sample").Fetches; n != 0 {
			t.Errorf("%s: %d fetches for what is checked out, want none", name, n)
		}
		if len(missing(t, dir, "--all")) == 0 {
			t.Errorf("%s: nothing is missing", name)
		}
		gitIn(t, dir, "log", "-p", "--all")
		clean(t, dir)
	}
	if got := missing(t, p.mount("full", "2"), "--all"); len(got) != 0 {
		t.Errorf("the full history lacks %d objects", len(got))
	}
}

func TestFilterThatTheRemoteIgnores(t *testing.T) {
	s := remote(t)
	p := start(t, scratch(t))
	p.create("v", map[string]string{"repo": s.URL("sample"), "filter": "blob:none"})
	dir := p.mount("v", "1")
	clean(t, dir)
	same(t, dir, plainClone(t, s.URL("sample")), "ls-files -s", "for-each-ref", "rev-list --objects --all")
	if got := missing(t, dir, "--all"); len(got) != 0 {
		t.Errorf("%d objects are missing, want none", len(got))
	}
}

func TestFilterWithProtocol0(t *testing.T) {
	s := remote(t)
	s.Wrap(protocol0)
	if err := s.Configure("sample", "uploadpack.allowFilter", "true"); err != nil {
		t.Fatal(err)
	}
	p := start(t, scratch(t))
	p.create("v", map[string]string{"repo": s.URL("sample"), "filter": "blob:none"})
	if err := p.tryMount("v", "1"); err == nil || !strings.Contains(err.Error(), "use filter=none") {
		t.Errorf("mount: %v, want the word to use filter=none", err)
	}
	if err := s.Configure("sample", "uploadpack.allowAnySHA1InWant", "true"); err != nil {
		t.Fatal(err)
	}
	clean(t, p.mount("v", "2"))
}

func TestSparseIsThatOfGit(t *testing.T) {
	s := remote(t)
	url := s.URL("sample")
	if err := s.Configure("sample", "uploadpack.allowFilter", "true"); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, dirs, filter string }{
		{"one directory", "docs", "none"},
		{"a deep one", "src/area00/part01", "blob:none"},
		{"several, one below another", "src/area00,src/area00/internal/part01,docs", "none"},
		{"several, without blobs", "src/area00,src/area00/internal/part01,docs", "blob:none"},
		{"one that does not exist", "docs,no/such", "blob:none"},
		{"none that exists", "nowhere", "none"},
	} {
		t.Run(c.name, func(t *testing.T) {
			filter := c.filter
			p := start(t, scratch(t))
			p.create("v", map[string]string{"repo": url, "sparse": c.dirs, "filter": filter})
			dir := p.mount("v", "1")
			clone := []string{"--sparse"}
			if filter != "none" {
				clone = append(clone, "--filter="+filter)
			}
			plain := plainClone(t, url, clone...)
			gitIn(t, plain, append([]string{"sparse-checkout", "set"}, strings.Split(c.dirs, ",")...)...)
			clean(t, dir)
			same(t, dir, plain, "ls-files -t", "ls-files -s", "sparse-checkout list",
				"config core.sparseCheckout", "config core.sparseCheckoutCone", "config extensions.worktreeConfig",
				"config core.repositoryformatversion")
			for _, file := range []string{".git/info/sparse-checkout", ".git/config.worktree"} {
				if got, want := content(t, dir, file), content(t, plain, file); got != want {
					t.Errorf("%s:\n%s\nwant:\n%s", file, got, want)
				}
			}
			if got, want := files(t, dir), files(t, plain); !slices.Equal(got, want) {
				t.Errorf("files: %q, want %q", got, want)
			}
			if filter != "none" {
				if got, want := missing(t, dir, "--all"), missing(t, plain, "--all"); !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))) {
					t.Errorf("%d objects are missing, want the %d that git leaves", len(got), len(want))
				}
			}
			for _, tree := range p.glob("clones/*/*/trees/*/.git") {
				if got, want := files(t, tree), []string{"index", "info/sparse-checkout"}; !slices.Equal(got, want) {
					t.Errorf("a tree has %q in .git, want %q", got, want)
				}
			}

			// Somebody else's tree of the same commit has everything.
			p.create("all", map[string]string{"repo": url, "filter": filter})
			all := p.mount("all", "1")
			same(t, all, plainClone(t, url), "ls-files -t", "status --porcelain")

			// An edit right after the mount is seen, and the container can have more, and all.
			if err := os.WriteFile(filepath.Join(dir, "README.md"), []byte("# SAMPLE\n\nA repository for trials.\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			if got, want := gitIn(t, dir, "status", "--porcelain"), " M README.md"; got != want {
				t.Errorf("status after an edit: %q, want %q", got, want)
			}
			gitIn(t, dir, "checkout", "-q", "README.md")
			gitIn(t, dir, "sparse-checkout", "add", "src/area00/part00")
			gitIn(t, plain, "sparse-checkout", "add", "src/area00/part00")
			same(t, dir, plain, "ls-files -t", "sparse-checkout list", "status --porcelain")
			gitIn(t, dir, "sparse-checkout", "disable")
			gitIn(t, plain, "sparse-checkout", "disable")
			same(t, dir, plain, "ls-files -t", "status --porcelain")
			if got, want := files(t, dir), files(t, plain); !slices.Equal(got, want) {
				t.Errorf("files when no longer sparse: %d, want %d", len(got), len(want))
			}
		})
	}
}

func TestSparseAndATrackedCacheLink(t *testing.T) {
	s := remote(t)
	if _, err := gitserver.Commit(s.Path("sample"), "main", gitserver.Change{Path: ".hdcache/mine", Content: "x"}); err != nil {
		t.Fatal(err)
	}
	p := start(t, scratch(t))
	p.create("v", map[string]string{"repo": s.URL("sample"), "sparse": "docs"})
	dir := p.mount("v", "1")
	clean(t, dir)
	if _, err := os.Lstat(filepath.Join(dir, ".hdcache")); !os.IsNotExist(err) {
		t.Errorf(".hdcache: %v, want none where the repository has one outside of the cone", err)
	}
}

func TestShapesLiveSideBySide(t *testing.T) {
	s := remote(t)
	url := s.URL("sample")
	if err := s.Configure("sample", "uploadpack.allowFilter", "true"); err != nil {
		t.Fatal(err)
	}
	p := start(t, scratch(t))
	shapes := []map[string]string{
		{}, {"depth": "1"}, {"depth": "2"}, {"filter": "blob:none"}, {"sparse": "docs"},
		{"depth": "1", "filter": "blob:none", "sparse": "src/area00"},
	}
	for round := range 2 {
		for i, shape := range shapes {
			name := "v" + strconv.Itoa(i)
			if round == 0 {
				shape["repo"] = url
				p.create(name, shape)
			}
			dir := p.mount(name, strconv.Itoa(round))
			clean(t, dir)
			if got, want := gitIn(t, dir, "rev-parse", "HEAD"), gitIn(t, s.Path("sample"), "rev-parse", "main"); got != want {
				t.Errorf("%v: at %s, want %s", shape, got, want)
			}
			p.unmount(name, strconv.Itoa(round))
		}
		if _, err := gitserver.Commit(s.Path("sample"), "main", gitserver.Change{Path: "docs/pushed", Content: "x"}); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for _, store := range p.glob("clones/*/*/store/*") {
		got = append(got, filepath.Base(store))
	}
	want := []string{"blob-none.git", "depth-1-blob-none.git", "depth-1.git", "depth-2.git", "full.git"}
	if !slices.Equal(got, want) {
		t.Errorf("stores %q, want %q", got, want)
	}
}

// glob lists paths below the data directory, sorted.
func (p *process) glob(pattern string) []string {
	p.t.Helper()
	paths, err := filepath.Glob(filepath.Join(p.at.data, pattern))
	if err != nil {
		p.t.Fatal(err)
	}
	return paths
}

// files lists what lies below dir, without directories, what is in .git, and what the plugin puts beside.
func files(t *testing.T, dir string) []string {
	t.Helper()
	var list []string
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.Name() == ".git" && path != dir:
			return filepath.SkipDir
		case !d.IsDir() && d.Name() != ".hdcache":
			rel, err := filepath.Rel(dir, path)
			list = append(list, rel)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// gitAs is gitIn as another user.
func gitAs(t *testing.T, uid uint32, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "LC_ALL=C",
		"GIT_AUTHOR_NAME=t", "GIT_AUTHOR_EMAIL=t@t", "GIT_COMMITTER_NAME=t", "GIT_COMMITTER_EMAIL=t@t"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimRight(string(out), "\n")
}
