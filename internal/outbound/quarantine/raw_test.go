package quarantine

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/internal/repo/lfs"
	"github.com/helmdeck/repos/tests/testgit"
)

// lfsPointer is a pointer of git-lfs.
var lfsPointer = "version https://git-lfs.github.com/spec/v1\noid sha256:" + strings.Repeat("ab", 32) + "\nsize 12\n"

// newLFSScene makes a scene of a repository that uses git-lfs, and has a content in place of a pointer
// from the start.
func newLFSScene(t *testing.T) *scene {
	t.Helper()
	server := testgit.Serve(t)
	testgit.Git(t, t.TempDir(), "init", "-q", "--bare", "-b", "main", server.Path("r"))
	if _, err := gitserver.Commit(server.Path("r"), "main",
		gitserver.Change{Path: ".gitattributes", Content: "[attr]large filter=lfs -text\n*.bin large\nplain/*.bin -filter\n"},
		gitserver.Change{Path: "old.bin", Content: "an old content\n"},
		gitserver.Change{Path: "a.bin", Content: lfsPointer},
	); err != nil {
		t.Fatal(err)
	}
	return sceneOf(t, server, "r")
}

// TestRaw commits contents and pointers, and wants to be told of contents that should be pointers.
func TestRaw(t *testing.T) {
	t.Parallel()
	begin := newLFSScene(t)
	content := "content\x00" + strings.Repeat("x", 2000)
	for _, tt := range []struct {
		name string
		make func(s *scene)
		want []string
	}{
		{"nothing of git-lfs", func(s *scene) { s.commit("t", content) }, nil},
		{"contents", func(s *scene) {
			s.commit("a.bin", content)
			s.commit("dir/small.bin", "small\n")
		}, []string{"a.bin", "dir/small.bin"}},
		{"names", func(s *scene) {
			for _, name := range []string{"with\nnewline.bin", "-x.bin", `"quoted".bin`, ":colon.bin", "ü.bin", "*.bin"} {
				s.write(name, content)
			}
			s.git("add", "--all")
			s.git("commit", "-q", "-m", "names")
		}, []string{"\"quoted\".bin", "*.bin", "-x.bin", ":colon.bin", "with\nnewline.bin", "ü.bin"}},
		{"pointers and empty files", func(s *scene) {
			s.commit("a.bin", strings.Replace(lfsPointer, "12", "13", 1))
			s.commit("crlf.bin", strings.ReplaceAll(lfsPointer, "\n", "\r\n"))
			s.commit("extension.bin", strings.Replace(lfsPointer, "oid", "ext-0-foo sha256:"+strings.Repeat("cd", 32)+"\noid", 1))
			s.commit("empty.bin", "")
		}, nil},
		{"a link", func(s *scene) {
			if err := os.Symlink("a.bin", s.root+"/link.bin"); err != nil {
				s.t.Fatal(err)
			}
			s.git("add", "link.bin")
			s.git("commit", "-q", "-m", "link")
		}, nil},
		{"no filter there", func(s *scene) { s.commit("plain/x.bin", content) }, nil},
		{"what the remote has had", func(s *scene) {
			s.git("mv", "old.bin", "renamed.bin")
			s.git("commit", "-q", "-m", "rename")
		}, nil},
		{"gone again", func(s *scene) {
			s.commit("b.bin", content)
			s.commit("b.bin", lfsPointer)
		}, []string{"b.bin"}},
		{"two names", func(s *scene) {
			s.write("z.txt", content)
			s.write("a.txt", content)
			s.commit("y.bin", content)
			s.git("add", "--all")
			s.git("commit", "-q", "-m", "more names")
		}, []string{"y.bin"}},
		{"a merge", func(s *scene) {
			s.git("checkout", "-q", "-b", "side")
			s.commit("side.bin", content)
			s.git("checkout", "-q", "main")
			s.commit("t", "t\n")
			s.git("merge", "-q", "--no-commit", "side")
			s.write("merged.bin", "merged\n")
			s.git("add", "--all")
			s.git("commit", "-q", "-m", "merge")
		}, []string{"merged.bin", "side.bin"}},
		{"attributes from now on", func(s *scene) {
			s.write("sub/.gitattributes", "*.dat filter=lfs\n")
			s.write("sub/x.dat", content)
			s.write("x.dat", content)
			s.git("add", "--all")
			s.git("commit", "-q", "-m", "track")
		}, []string{"sub/x.dat"}},
		{"attributes that are too large to be searched", func(s *scene) {
			s.write(".gitattributes", "# "+strings.Repeat("x", 1500)+"\n"+strings.Repeat("#\n", 1<<19)+"*.dat filter=lfs\n")
			s.commit("x.dat", content)
			s.git("add", "--all")
			s.git("commit", "-q", "-m", "attributes")
		}, []string{"x.dat"}},
		{"attributes that are gone", func(s *scene) {
			s.git("rm", "-q", ".gitattributes")
			s.commit("x.bin", content)
		}, nil},
		{"another history", func(s *scene) {
			s.git("checkout", "-q", "--orphan", "other")
			s.commit("first.bin", content)
			s.git("branch", "-M", "main")
		}, []string{"first.bin"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := begin.again(t)
			tt.make(s)
			taken, _ := s.mustTake("main")
			got, err := taken.Raw(t.Context())
			if err != nil || !slices.Equal(got, tt.want) {
				t.Errorf("got %q, %v, want %q", got, err, tt.want)
			}
		})
	}
}

// TestRawOfBranches: each branch is judged by its own attributes, whichever is the first.
func TestRawOfBranches(t *testing.T) {
	t.Parallel()
	s := newLFSScene(t)
	s.git("checkout", "-q", "-b", "large")
	s.commit("y.bin", "content\n")
	s.git("checkout", "-q", "--orphan", "plain")
	s.git("rm", "-r", "-q", "-f", ".")
	s.commit("x.bin", "content\n")
	for names, want := range map[string][]string{"plain large": {"y.bin"}, "large plain": {"y.bin"}, "plain": nil} {
		r, err := s.repo()
		s.must(err)
		var branches []Branch
		for name := range strings.FieldsSeq(names) {
			b, err := r.Branch(name)
			s.must(err)
			branches = append(branches, b)
		}
		taken, err := s.q.Take(t.Context(), r, branches, silent)
		s.must(err)
		if got, err := taken.Raw(t.Context()); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: got %q, %v, want %q", names, got, err, want)
		}
		s.must(taken.Close())
	}
}

// TestRawOfManyBranches: each commit costs a list of its files, however many branches are at it.
func TestRawOfManyBranches(t *testing.T) {
	t.Parallel()
	s := newLFSScene(t)
	s.commit("x.bin", "content\n")
	taken, b := s.mustTake("main")
	for range maxJudged {
		taken.Branches = append(taken.Branches, b)
	}
	if got, err := taken.Raw(t.Context()); err != nil || !slices.Equal(got, []string{"x.bin"}) {
		t.Errorf("many branches at one commit: %q, %v", got, err)
	}
	for i := range taken.Branches {
		taken.Branches[i].ID = fmt.Sprintf("%040x", i)
	}
	_, err := taken.Raw(t.Context())
	s.must(taken.Close())
	s.wantRefusal(err, TooLarge, "more than 1000 branches with new commits")
}

// TestPointers: pointers that the history of the layer has are not new, as after a revert.
func TestPointers(t *testing.T) {
	t.Parallel()
	server := newLFSScene(t).server
	second, third := strings.Replace(lfsPointer, "12", "13", 1), strings.Replace(lfsPointer, "12", "14", 1)
	if _, err := gitserver.Commit(server.Path("r"), "main", gitserver.Change{Path: "a.bin", Content: second}); err != nil {
		t.Fatal(err)
	}
	s := sceneOf(t, server, "r")
	s.commit("a.bin", lfsPointer) // as it was
	s.commit("renamed.bin", second)
	s.commit("new.bin", third)
	taken, _ := s.mustTake("main")
	var sizes []int64
	err := taken.Pointers(t.Context(), func(p lfs.Pointer) error {
		sizes = append(sizes, p.Size)
		return nil
	})
	if err != nil || !slices.Equal(sizes, []int64{14}) {
		t.Errorf("pointers with the sizes %d, %v, want that of the new one, 14", sizes, err)
	}
}

// TestRawOfPartialClone: .gitattributes that the layer does not have are not judged, and are no error.
func TestRawOfPartialClone(t *testing.T) {
	t.Parallel()
	server := newLFSScene(t).server
	if err := server.Configure("r", "uploadpack.allowFilter", "true"); err != nil {
		t.Fatal(err)
	}
	for _, cloning := range [][]string{{"--filter=blob:none"}, {"--depth=1"}} {
		s := sceneOf(t, server, "r", cloning...)
		s.commit("x.bin", "content\n")
		taken, _ := s.mustTake("main")
		if _, err := taken.Raw(t.Context()); err != nil {
			t.Errorf("%q: %v", cloning, err)
		}
	}
}
