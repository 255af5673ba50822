package main

import (
	"crypto/rand"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/internal/git/gitserver/lfsserver"
	"github.com/helmdeck/repos/tests/short"
	"github.com/helmdeck/repos/tests/testgit"
)

// lfsRepo makes a repository whose LFS server is lfs.
func lfsRepo(t *testing.T, s *gitserver.Server, lfs *lfsserver.Server, name string) pusher {
	t.Helper()
	w := newRepo(t, s, name)
	s.Route(name, lfs.Serve)
	return w
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func inode(t *testing.T, path string) uint64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Sys().(*syscall.Stat_t).Ino
}

func TestLFSFilesAreFetchedOnce(t *testing.T) {
	t.Parallel()
	s, lfs := testgit.Serve(t), new(lfsserver.Server)
	big := make([]byte, 3<<20)
	if _, err := rand.Read(big); err != nil {
		t.Fatal(err)
	}
	one, two, three := lfs.Put(string(big)), lfs.Put("small\n"), lfs.Put("later\n")
	sub := lfsRepo(t, s, lfs, "sub")
	subAt := sub.commit(map[string]string{".gitattributes": lfsserver.Attributes, "s.bin": two.String()}, nil)
	w := lfsRepo(t, s, lfs, "app")
	w.commit(map[string]string{
		".gitattributes":      "[attr]large filter=lfs diff=lfs merge=lfs -text\n*.bin large\n",
		"a/big.bin":           one.String(),
		"a/small file.bin":    two.String(),
		"b/.gitattributes":    "data -filter\n*.bin -filter\n",
		"b/not.bin":           one.String(),
		"looks-like-one.text": two.String(),
		"empty.bin":           "",
		"text.bin":            "version https://git-lfs.github.com/spec/v1, says a text that is no pointer but as long as one is, more or less\n",
		".gitmodules":         section("sub", "sub", "../sub"),
	}, map[string]string{"sub": subAt})
	testgit.Git(t, w.dir, "update-index", "--chmod=+x", "a/small file.bin")
	w.commit(nil, nil)

	p := start(t, scratch(t))
	for _, uid := range []string{"0", "1000"} {
		p.create("v"+uid, map[string]string{"repo": s.URL("app"), "uid": uid, "gid": uid, "submodules": "true"})
		dir := p.mount("v"+uid, "1")
		for path, want := range map[string]string{
			"a/big.bin": string(big), "a/small file.bin": "small\n", "sub/s.bin": "small\n",
			"b/not.bin": one.String(), "looks-like-one.text": two.String(), "empty.bin": "",
		} {
			if got := readFile(t, filepath.Join(dir, path)); got != want {
				t.Errorf("uid %s: %s: %d bytes %.80q, want %d bytes %.80q", uid, path, len(got), got, len(want), want)
			}
		}
		if info, err := os.Stat(filepath.Join(dir, "a/small file.bin")); err != nil || info.Mode() != 0o755 {
			t.Errorf("mode %v, %v, want 0755", info.Mode(), err)
		}
		for _, place := range []string{dir, filepath.Join(dir, "sub")} {
			if got := gitUser(t, uid, place, "status", "--porcelain"); got != "" {
				t.Errorf("uid %s: status of %s: %q, want clean", uid, place, got)
			}
		}
		if err := os.WriteFile(filepath.Join(dir, "a/small file.bin"), []byte("smalL\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		if got := gitUser(t, uid, dir, "status", "--porcelain"); got != ` M "a/small file.bin"` {
			t.Errorf("status after an edit of the same size: %q", got)
		}
		p.unmount("v"+uid, "1")
	}
	if got := lfs.Stats(one.OID).Downloads; got != 1 {
		t.Errorf("the large object was downloaded %d times, want once", got)
	}
	if got := lfs.Stats(two.OID).Downloads; got != 2 {
		t.Errorf("the small object was downloaded %d times, want once for each of the two clones", got)
	}

	// With submodules, each tree is built whole. Without them, it is a delta on the previous tree.
	p.create("delta", map[string]string{"repo": s.URL("app")})
	before := inode(t, filepath.Join(p.mount("delta", "before"), "a/big.bin"))
	w.commit(map[string]string{"c.bin": three.String()}, nil)
	delta := p.mount("delta", "after")
	if readFile(t, filepath.Join(delta, "c.bin")) != "later\n" || readFile(t, filepath.Join(delta, "a/big.bin")) != string(big) {
		t.Error("the files of a delta tree have wrong contents")
	}
	if after := inode(t, filepath.Join(delta, "a/big.bin")); after != before {
		t.Errorf("an unchanged file has inode %d, and had %d: its tree is not a delta on the previous tree", after, before)
	}
	if got := gitUser(t, "0", delta, "status", "--porcelain"); got != "" {
		t.Errorf("status %q, want clean", got)
	}
	p.unmount("delta", "before")
	p.unmount("delta", "after")
	dir := p.mount("v0", "2")
	if got := readFile(t, filepath.Join(dir, "c.bin")); got != "later\n" {
		t.Errorf("c.bin after a push: %q", got)
	}
	if got := lfs.Stats(one.OID); got.Asked != 1 || got.Downloads != 1 {
		t.Errorf("a stored object was asked for again: %+v", got)
	}
	p.create("pointers", map[string]string{"repo": s.URL("app"), "lfs": "false", "uid": "7"})
	dir = p.mount("pointers", "3")
	if got := readFile(t, filepath.Join(dir, "a/big.bin")); got != one.String() {
		t.Errorf("lfs=false: %.100q, want the pointer", got)
	}
	p.unmount("v0", "2")
	p.unmount("pointers", "3")
	if left, err := filepath.Glob(filepath.Join(p.at.data, "clones/*/*/lfs/.tmp*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestLFSServerFailures(t *testing.T) {
	t.Parallel()
	other := testgit.Serve(t) // on loopback, but not the server of the volume
	elsewhere := new(lfsserver.Server)
	elsewhere.Put("content\n")
	other.Route("x", elsewhere.Serve)
	for _, tt := range []struct {
		name   string
		config string // .lfsconfig
		setup  func(s *gitserver.Server, lfs *lfsserver.Server, oid string)
		want   string // part of the error; empty: the mount works
	}{
		{name: "one that works", setup: func(*gitserver.Server, *lfsserver.Server, string) {}},
		{name: "gives tokens", setup: func(_ *gitserver.Server, lfs *lfsserver.Server, _ string) { lfs.Token("t") }},
		{name: ".lfsconfig beside the repository", config: "[lfs]\n\turl = SERVER/app.git/info/lfs\n", setup: func(*gitserver.Server, *lfsserver.Server, string) {}},
		{name: ".lfsconfig with the repository's ssh URL", config: "[lfs]\n\turl = ssh://git@HOST:2222/app.git\n"},
		{name: ".lfsconfig with the repository's ssh address", config: "[lfs]\n\turl = git@HOST:app.git\n"},
		{name: ".lfsconfig with an ssh URL elsewhere", config: "[lfs]\n\turl = ssh://git@github.com/x/app.git\n", want: "only a URL on the repository's host"},
		{name: "fails once", setup: func(s *gitserver.Server, lfs *lfsserver.Server, _ string) {
			failed := false
			s.Route("app", func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if strings.HasSuffix(r.URL.Path, "/objects/batch") && !failed {
						failed = true
						http.Error(w, "busy", http.StatusServiceUnavailable)
						return
					}
					lfs.Serve(next).ServeHTTP(w, r)
				})
			})
		}},
		{name: "lacks the object", setup: func(_ *gitserver.Server, lfs *lfsserver.Server, oid string) { lfs.Deny(oid, 404) }, want: `of "f.bin" (lfs=false leaves pointers)`},
		{name: "fails the download", setup: func(_ *gitserver.Server, lfs *lfsserver.Server, oid string) { lfs.Fail(oid, 410) }, want: "410 Gone"},
		{name: "sends another content", setup: func(_ *gitserver.Server, lfs *lfsserver.Server, oid string) { lfs.Spoil(oid, "evil....") }, want: "another content"},
		{name: "sends more", setup: func(_ *gitserver.Server, lfs *lfsserver.Server, oid string) {
			lfs.Spoil(oid, strings.Repeat("more", 1000))
		}, want: "another content"},
		{name: "sends to another server", setup: func(_ *gitserver.Server, lfs *lfsserver.Server, _ string) {
			lfs.Href(other.URL("x.git/info/lfs/objects"))
		}, want: "may not lead there"},
		{name: "sends to a file", setup: func(_ *gitserver.Server, lfs *lfsserver.Server, _ string) { lfs.Href("file:///etc/passwd") }, want: `to "file"`},
		{name: "redirects to another server", setup: func(s *gitserver.Server, _ *lfsserver.Server, _ string) {
			s.Route("app", func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if strings.Contains(r.URL.Path, "/info/lfs/") {
						http.Redirect(w, r, other.URL("x.git/info/lfs/objects/batch"), http.StatusTemporaryRedirect)
						return
					}
					next.ServeHTTP(w, r)
				})
			})
		}, want: "may not lead there"},
		{name: ".lfsconfig to another server", config: "[lfs]\n\turl = OTHER/x.git/info/lfs\n", want: "may not lead there"},
		{name: ".lfsconfig by remote", config: "[remote \"origin\"]\n\tlfsurl = OTHER/x.git/info/lfs\n", want: "may not lead there"},
		{name: ".lfsconfig to link-local", config: "[lfs]\n\turl = http://169.254.169.254/latest\n", want: "may not lead there"},
		{name: ".lfsconfig to a file", config: "[lfs]\n\turl = file:///etc\n", want: ".lfsconfig"},
		{name: ".lfsconfig with a password", config: "[lfs]\n\turl = https://u:p@github.com/x\n", want: ".lfsconfig"},
		{name: ".lfsconfig with an option", config: "[lfs]\n\turl = --upload-pack=x\n", want: ".lfsconfig"},
		{name: "no LFS server", setup: func(s *gitserver.Server, _ *lfsserver.Server, _ string) { s.Route("app") }, want: "404"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			short.OneOf(t, 4)
			s, lfs := testgit.Serve(t), new(lfsserver.Server)
			object := lfs.Put("content\n")
			w := lfsRepo(t, s, lfs, "app")
			if tt.setup != nil {
				tt.setup(s, lfs, object.OID)
			}
			files := map[string]string{".gitattributes": lfsserver.Attributes, "f.bin": object.String()}
			if tt.config != "" {
				files[".lfsconfig"] = strings.NewReplacer("HOST", "127.0.0.1", "SERVER", strings.TrimSuffix(s.URL(""), "/"), "OTHER", strings.TrimSuffix(other.URL(""), "/")).Replace(tt.config)
			}
			w.commit(files, nil)
			p := start(t, scratch(t))
			p.create("v", map[string]string{"repo": s.URL("app")})
			dir, err := p.Mount(t.Context(), "v", "1")
			t.Log(err)
			switch {
			case tt.want == "" && err != nil:
				t.Fatal(err)
			case tt.want == "":
				if got := readFile(t, filepath.Join(dir, "f.bin")); got != "content\n" {
					t.Errorf("f.bin: %q", got)
				}
				p.unmount("v", "1")
			case err == nil || !strings.Contains(err.Error(), tt.want):
				t.Errorf("mount: %v, want an error with %q", err, tt.want)
			}
			if got := other.Requests(); len(got) > 0 {
				t.Errorf("the other server was asked: %v", got)
			}
		})
	}
}
