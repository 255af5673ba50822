package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/git/gitserver/lfsserver"
	lfsfiles "github.com/helmdeck/repos/internal/repo/lfs"
	"github.com/helmdeck/repos/tests/testgit"
)

// withoutGitLFS is an image without git-lfs, and withGitLFS one with it.
func withoutGitLFS(t *testing.T, shell string) testgit.Image {
	t.Helper()
	return testgit.Small(t, shell, "cat", "dd", "mkdir", "mktemp", "mv", "rm", "sha256sum", "tr", "wc")
}

var withGitLFS = testgit.Image{Path: os.Getenv("PATH"), Config: []string{
	"-c", "filter.lfs.process=git-lfs filter-process", "-c", "filter.lfs.required=true", "-c", "lfs.transfer.maxretries=1",
}}

// touch gives all files below dir another time, so that git looks into each of them. (It may miss a new
// owner in the second of the checkout.)
func touch(t *testing.T, dir string) {
	t.Helper()
	at := time.Unix(1_000_000_000, 0)
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			err = os.Chtimes(path, at, at)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestLFSWorkspaces uses workspaces with LFS files, also in a submodule and in the layers of a delta,
// in images with and without git-lfs. What a checkout of them has is there without the server. With -short it
// uses one workspace of each shape, of different users, in an image with git-lfs and in one without.
func TestLFSWorkspaces(t *testing.T) {
	t.Parallel()
	s, lfs := testgit.Serve(t), new(lfsserver.Server)
	name := "it's a \"model\"\n.bin"
	first, second, inSub := lfs.Put("first\n"), lfs.Put("second\n"), lfs.Put("of the submodule\n")
	sub := lfsRepo(t, s, lfs, "sub")
	subAt := sub.commit(map[string]string{".gitattributes": lfsserver.Attributes, "s.bin": inSub.String()}, nil)
	w := lfsRepo(t, s, lfs, "app")
	w.commit(map[string]string{
		".gitattributes": lfsserver.Attributes, name: first.String(), "copy.bin": first.String(), "empty.bin": "", "text": "text\n",
		"cone/c.bin": first.String(), ".gitmodules": section("sub", "sub", "../sub"),
	}, map[string]string{"sub": subAt})

	p := start(t, scratch(t))
	for _, uid := range []string{"0", "1000"} {
		options := map[string]string{"repo": s.URL("app"), "uid": uid, "gid": uid}
		p.create("delta"+uid, options)
		p.mount("delta"+uid, "base")
		options["submodules"] = "true"
		p.create("whole"+uid, options)
	}
	w.commit(map[string]string{"second.bin": second.String()}, nil)
	dirs := map[string]string{}
	for _, shape := range []string{"delta", "whole"} {
		for _, uid := range []string{"0", "1000"} {
			for _, image := range append([]string{"git-lfs"}, testgit.Shells...) {
				of := shape + " " + uid + " " + image
				if !testing.Short() || of == "delta 0 git-lfs" || of == "whole 1000 busybox" {
					dirs[of] = p.mount(shape+uid, image)
				}
			}
		}
	}
	downloads := lfs.Stats(first.OID).Downloads
	s.Close()
	for of, dir := range dirs {
		t.Run(of, func(t *testing.T) {
			shape, rest, _ := strings.Cut(of, " ")
			id, shell, _ := strings.Cut(rest, " ")
			uid, err := strconv.Atoi(id)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
				t.Fatal(err)
			}
			image := withGitLFS
			if shell != "git-lfs" {
				image = withoutGitLFS(t, shell)
			}
			git := func(at string, args ...string) string {
				t.Helper()
				out, err := image.Run(uid, filepath.Join(dir, at), args...)
				if err != nil {
					t.Fatal(err)
				}
				return out
			}
			wantContent := func(path, want string) {
				t.Helper()
				if got := readFile(t, filepath.Join(dir, path)); got != want {
					t.Errorf("%s: %q, want %q", path, got, want)
				}
			}
			for _, name := range lfsfiles.Hooks {
				wantContent(".git/hooks/"+name, string(lfsfiles.Hook()))
				info, err := os.Stat(filepath.Join(dir, ".git/hooks", name))
				if err != nil {
					t.Fatal(err)
				}
				if info.Mode().Perm() != 0o755 {
					t.Errorf("%s: %v", name, info.Mode())
				}
			}
			wantClean := func(at string) {
				t.Helper()
				if got := git(at, "status", "--porcelain"); got != "" {
					t.Errorf("status: %q, want clean", got)
				}
			}
			remove := func(paths ...string) {
				t.Helper()
				for _, path := range paths {
					if err := os.Remove(filepath.Join(dir, path)); err != nil {
						t.Fatal(err)
					}
				}
			}
			places := []string{"."}
			if shape == "whole" {
				places = append(places, "sub")
			}
			touch(t, dir)
			for _, at := range places {
				wantClean(at)
			}
			remove(name, "copy.bin", "empty.bin", "second.bin")
			git(".", "checkout", "-q", "--", ".")
			wantContent(name, "first\n")
			wantContent("second.bin", "second\n")
			wantContent("empty.bin", "")
			if shape == "whole" {
				remove("sub/s.bin")
				git("sub", "reset", "-q", "--hard")
				wantContent("sub/s.bin", "of the submodule\n")
			}

			if err := os.WriteFile(filepath.Join(dir, name), []byte("changed\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			git(".", "stash", "-q")
			wantContent(name, "first\n")
			git(".", "stash", "pop", "-q")
			wantContent(name, "changed\n")
			git(".", "checkout", "-q", "-b", "mine")
			git(".", "rm", "-q", "second.bin")
			if err := os.WriteFile(filepath.Join(dir, "new.bin"), []byte("new\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			if err := os.Lchown(filepath.Join(dir, "new.bin"), uid, uid); err != nil {
				t.Fatal(err)
			}
			git(".", "add", "-A")
			git(".", "commit", "-q", "-m", "mine")
			for path, want := range map[string]string{name: "changed\n", "new.bin": "new\n", "copy.bin": "first\n"} {
				if got := git(".", "cat-file", "blob", "HEAD:"+path) + "\n"; got != lfsserver.PointerTo(want).String() {
					t.Errorf("the commit has %q as %s, want the pointer of %q", got, path, want)
				}
			}
			if got := git(".", "diff", "--name-status", "--no-renames", "HEAD~", "HEAD"); len(strings.Split(got, "\n")) != 3 {
				t.Errorf("the commit has %q, want one new, one changed and one removed file", got)
			}
			git(".", "switch", "-q", "main")
			wantContent("second.bin", "second\n")
			wantContent(name, "first\n")
			git(".", "switch", "-q", "mine")
			wantContent("new.bin", "new\n")
			wantClean(".")
			git(".", "worktree", "add", "-q", ".git/other", "main")
			wantContent(".git/other/second.bin", "second\n")
			git(".", "sparse-checkout", "set", "cone")
			git(".", "sparse-checkout", "disable")
			wantContent("cone/c.bin", "first\n")
			if shell == "git-lfs" {
				git(".", "lfs", "fsck", "--objects", "main")
				git(".", "-c", "protocol.file.allow=always", "clone", "-q", "--no-hardlinks", "-b", "main", ".", ".git/copy")
				wantContent(".git/copy/second.bin", "second\n")
				wantContent(".git/copy/"+name, "first\n")
			}
		})
	}
	if got := lfs.Stats(first.OID).Downloads; got != downloads {
		t.Errorf("an object was downloaded %d times more", got-downloads)
	}
}

// TestLFSPullDownloadsNothing asks git-lfs for what a workspace has.
func TestLFSPullDownloadsNothing(t *testing.T) {
	t.Parallel()
	s, lfs := testgit.Serve(t), new(lfsserver.Server)
	one, later := lfs.Put("one\n"), lfs.Put("later\n")
	w := lfsRepo(t, s, lfs, "app")
	w.commit(map[string]string{".gitattributes": lfsserver.Attributes, "one.bin": one.String()}, nil)
	p := start(t, scratch(t))
	pull := func(dir string) {
		t.Helper()
		if _, err := withGitLFS.Run(0, dir, "lfs", "pull"); err != nil {
			t.Error(err)
		}
	}
	p.create("v", map[string]string{"repo": s.URL("app")})
	dir := p.mount("v", "1")
	pull(dir)
	if got := lfs.Stats(one.OID).Downloads; got != 1 {
		t.Errorf("the object was downloaded %d times, want once", got)
	}
	w.commit(map[string]string{"later.bin": later.String()}, nil)
	testgit.Git(t, dir, "fetch", "-q")
	image := withoutGitLFS(t, "dash")
	if _, err := image.Run(0, dir, "checkout", "-q", "FETCH_HEAD"); err != nil {
		t.Fatal(err)
	}
	if got := readFile(t, filepath.Join(dir, "later.bin")); got != later.String() {
		t.Errorf("a file whose object is not there: %q, want the pointer", got)
	}
	pull(dir)
	if got := readFile(t, filepath.Join(dir, "later.bin")); got != "later\n" {
		t.Errorf("after git lfs pull: %q", got)
	}

	p.create("pointers", map[string]string{"repo": s.URL("app"), "lfs": "false"})
	dir = p.mount("pointers", "2")
	program := testgit.Image{Path: os.Getenv("PATH")} // git-lfs, without any configuration
	if err := os.Remove(filepath.Join(dir, "one.bin")); err != nil {
		t.Fatal(err)
	}
	if _, err := program.Run(0, dir, "checkout", "--", "one.bin"); err != nil {
		t.Fatal(err)
	}
	if got := readFile(t, filepath.Join(dir, "one.bin")); got != one.String() {
		t.Errorf("lfs=false, after git checkout: %q, want the pointer", got)
	}
	pull(dir)
	if got := readFile(t, filepath.Join(dir, "one.bin")); got != "one\n" {
		t.Errorf("lfs=false, after git lfs pull: %q", got)
	}
}

// TestPushOfLFSContents commits with git-lfs's filter turned off.
func TestPushOfLFSContents(t *testing.T) {
	t.Parallel()
	s, lfs := testgit.Serve(t), new(lfsserver.Server)
	one := lfs.Put("one\n")
	w := lfsRepo(t, s, lfs, "app")
	w.commit(map[string]string{".gitattributes": lfsserver.Attributes, "one.bin": one.String()}, nil)
	p := start(t, scratch(t))
	p.create("v", map[string]string{"repo": s.URL("app")})
	dir := p.mount("v", "1")
	id := p.workspaceOf("v")
	git := func(args ...string) {
		t.Helper()
		if _, err := withoutGitLFS(t, "busybox").Run(0, dir, args...); err != nil {
			t.Fatal(err)
		}
	}
	push := func(to string, without bool) (api.PushResult, error) {
		t.Helper()
		return p.admin().Outbound(id).Push(t.Context(), api.Push{RemoteBranch: to, WithoutLFS: without}, nil)
	}
	touch(t, dir)
	git("-c", "filter.lfs.clean=cat", "add", "-A")
	git("commit", "-q", "-m", "contents")
	_, err := push("contents", false)
	if err == nil || !strings.Contains(err.Error(), `the contents of 1 files that .gitattributes gives to git-lfs, such as "one.bin"`) || !strings.Contains(err.Error(), "git add --renormalize") {
		t.Errorf("contents: %v", err)
	}
	if _, err := push("as-they-are", true); err != nil {
		t.Error(err)
	}
	// What the error advises.
	git("add", "--renormalize", ".")
	git("commit", "-q", "--amend", "--allow-empty", "-m", "pointers")
	if _, err := push("pointers", false); err != nil {
		t.Error(err)
	}
	if got := testgit.Git(t, s.Path("app"), "cat-file", "blob", "pointers:one.bin"); got+"\n" != one.String() {
		t.Errorf("the remote has %q, want the pointer", got)
	}
	if _, err := testgit.Run(testgit.Command(s.Path("app"), "rev-parse", "--verify", "--quiet", "contents")); err == nil {
		t.Error("the remote has the branch that was refused")
	}
}
