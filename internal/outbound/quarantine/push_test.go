package quarantine

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/helmdeck/repos/internal/git/gitprogress"
	"github.com/helmdeck/repos/internal/git/gitref"
	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/tests/testgit"
)

// TestPush pushes from repositories of all histories, with loose and packed objects, and checks
// that the remote has what was committed.
func TestPush(t *testing.T) {
	t.Parallel()
	for name, cloning := range map[string][]string{
		"full": nil, "shallow": {"--depth=1", "--no-single-branch"}, "no-blobs": {"--filter=blob:none"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, cloning...)
			s.git("switch", "-q", "-c", "work")
			s.commit("new/file", strings.Repeat("a line\n", 1000))
			s.git("repack", "-q", "-d") // a pack of its own
			want := s.commit("new/other", "x")
			s.commit("new/third", "y")
			s.git("reset", "-q", "--hard", want)
			// The remote moves on, to a commit that the workspace does not know.
			if _, err := gitserver.Commit(s.server.Path("r"), "main", gitserver.Change{Path: "theirs", Content: "x"}); err != nil {
				t.Fatal(err)
			}
			taken, b := s.mustTake("")
			if b.Name != "work" || b.ID != want || taken.Commits != 2 || taken.Objects < 6 || taken.Bytes < 100 || taken.Bytes > 4000 {
				t.Errorf("took %+v with %d commits, %d objects and %d bytes", b, taken.Commits, taken.Objects, taken.Bytes)
			}
			if got, err := os.ReadFile(taken.needs()); err != nil || string(got) != "-"+s.base+" \n" {
				t.Errorf("it needs %q, %v, want %s", got, err, s.base)
			}
			taken.Forget()
			if err := taken.Push(t.Context(), s.target("fix/it", ""), b, silent); err != nil {
				t.Fatal(err)
			}
			if got := s.at("fix/it"); got != want {
				t.Errorf("the remote is at %q, want %q", got, want)
			}
			testgit.Git(t, s.server.Path("r"), "fsck", "--strict", "--full")
			if err := taken.Push(t.Context(), s.target("fix/it", ""), b, silent); err != nil {
				t.Errorf("pushed again: %v", err)
			}
		})
	}
}

// TestPushOfLayersCommit pushes a new branch at a commit that the workspace began with.
func TestPushOfLayersCommit(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	if err := s.push("HEAD", "copy", ""); err != nil {
		t.Fatal(err)
	}
	if got := s.at("copy"); got != s.base {
		t.Errorf("the remote is at %q, want %q", got, s.base)
	}
}

// TestPushAfterRepack pushes from a repository that has none of the packs that it began with.
func TestPushAfterRepack(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	want := s.commit("f", "x")
	s.git("repack", "-qad")
	s.git("pack-refs", "--all", "--prune")
	if err := s.push("main", "main", ""); err != nil {
		t.Fatal(err)
	}
	if got := s.at("main"); got != want {
		t.Errorf("the remote is at %q, want %q", got, want)
	}
}

func TestPushIsRefused(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	mine := s.commit("f", "mine")
	theirs, err := gitserver.Commit(s.server.Path("r"), "main", gitserver.Change{Path: "theirs", Content: "x"})
	if err != nil {
		t.Fatal(err)
	}
	s.wantLater(s.push("main", "main", ""), Conflict, "has commits that "+mine)
	s.wantLater(s.push("main", "main", s.base), Conflict, "is not at "+s.base)
	if err := s.push("main", "main", theirs); err != nil {
		t.Errorf("with the right lease: %v", err)
	}
	if got := s.at("main"); got != mine {
		t.Errorf("the remote is at %q, want %q", got, mine)
	}
	hook := filepath.Join(s.server.Path("r"), "hooks/pre-receive")
	script := "#!/bin/sh\nprintf 'branch \\033[31mprotected\\n' >&2\nexit 1\n"
	if err := os.MkdirAll(filepath.Dir(hook), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(hook, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	s.wantLater(s.push("main", "other", ""), Denied, `pre-receive hook declined: it says: "branch [31mprotected"`)
}

// wantLater is wantRefusal for an error after the commits were taken.
func (s *scene) wantLater(err error, why Why, text string) {
	s.t.Helper()
	r, ok := err.(*Refusal)
	if !ok || r.Why != why || !strings.Contains(r.Text, text) {
		s.t.Errorf("got the error %v, want a refusal of kind %d with %q", err, why, text)
	}
}

// TestBundle fetches from a bundle, in both formats of objects.
func TestBundle(t *testing.T) {
	t.Parallel()
	for _, format := range []string{gitref.SHA1, gitref.SHA256} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			server := testgit.Serve(t)
			testgit.Git(t, "", "init", "-q", "--bare", "-b", "main", "--object-format="+format, server.Path("r"))
			if _, err := gitserver.Commit(server.Path("r"), "main", gitserver.Change{Path: "f", Content: "zero"}); err != nil {
				t.Fatal(err)
			}
			s := sceneOf(t, server, "r")
			one := s.commit("f", "one")
			s.git("switch", "-q", "-c", "two/2")
			two := s.commit("f", "two")
			s.git("branch", "same", s.base)
			r, err := s.repo()
			if err != nil {
				t.Fatal(err)
			}
			branches, err := r.Differing()
			if err != nil || len(branches) != 2 {
				t.Fatalf("branches %v, %v", branches, err)
			}
			taken, err := s.q.Take(t.Context(), r, branches, silent)
			if err != nil {
				t.Fatal(err)
			}
			defer taken.Close()
			taken.Forget()
			content, size, err := taken.Bundle()
			if err != nil {
				t.Fatal(err)
			}
			defer content.Close()
			body, err := io.ReadAll(content)
			if err != nil || int64(len(body)) != size {
				t.Fatalf("%d bytes, want %d, %v", len(body), size, err)
			}
			file := filepath.Join(t.TempDir(), "b")
			if err := os.WriteFile(file, body, 0o600); err != nil {
				t.Fatal(err)
			}
			testgit.Git(t, server.Path("r"), "bundle", "verify", "-q", file)
			testgit.Git(t, server.Path("r"), "fetch", "-q", file, "main:one", "two/2:two")
			if got := s.at("one") + s.at("two"); got != one+two {
				t.Errorf("fetched %s, want %s", got, one+two)
			}
			testgit.Git(t, server.Path("r"), "fsck", "--strict", "--full")
		})
	}
}

// TestCheckTarget: a full ref is not the name of a branch, although git would make a branch of it.
func TestCheckTarget(t *testing.T) {
	t.Parallel()
	id := strings.Repeat("a", 40)
	for _, tt := range []struct {
		branch, lease string
		want          string // of the error; empty: none
	}{
		{"a/b", "", ""},
		{"a", id, ""},
		{"references/a", "", ""},
		{"refs/heads/main", "", `give it without refs/heads/, such as "main"`},
		{"refs/tags/v1", "", "without refs/heads/"},
		{"HEAD", "", "not HEAD"},
		{"+main", "", ""}, // git's refspec is ours, and so the plus is a part of the name
		{"a:b", "", "is not the name"},
		{"a", "main", "the full ID"},
		{"a", id[1:], "the full ID"},
	} {
		err := CheckTarget(tt.branch, tt.lease)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q, %q: %v, want %q", tt.branch, tt.lease, err, tt.want)
		}
	}
}

// TestSentBytes: what a remote has taken is what git says that it wrote, and not how often it says something.
func TestSentBytes(t *testing.T) {
	t.Parallel()
	total := int64(0)
	sent := &sending{moved: func(n int64) { total += n }}
	for _, tt := range []struct {
		line string
		want int64
	}{
		{"Enumerating objects: 5, done.", localStep},
		{"Counting objects:  50% (5/10)", localStep},
		{"Counting objects:  50% (5/10)", 0},
		{"Counting objects:  60% (6/10)", localStep},
		{"Writing objects:  50% (1/2)", 0},
		{"Writing objects:  50% (1/2), 2.00 MiB | 1.00 MiB/s", 2 << 20},
		{"Writing objects:  50% (1/2), 2.00 MiB | 1.00 KiB/s", 0},
		{"Writing objects: 100% (2/2), 3.50 MiB | 1.00 KiB/s, done.", 3 << 19},
		{"Writing objects:  50% (1/2), 1.00 MiB | 1.00 MiB/s", 0}, // another try
		{"Writing objects: 100% (2/2), 3.00 MiB | 1.00 MiB/s", 2 << 20},
	} {
		p, ok := gitprogress.Parse(tt.line)
		before := total
		if sent.note(p); !ok || total-before != tt.want {
			t.Errorf("%q: %d bytes, want %d", tt.line, total-before, tt.want)
		}
	}
	new(sending).note(gitprogress.Progress{Phase: "Writing objects", Amount: "1.00 MiB"})
}
