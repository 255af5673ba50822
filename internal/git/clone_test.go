package git

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/helmdeck/repos/internal/git/giterror"
	"github.com/helmdeck/repos/internal/git/gitref"
	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/tests/testgit"
)

// contents returns what a store has: the names of all files and directories, with the content of
// all small files. Packs have a name in place of their hash, because the order of their objects
// may differ.
func contents(t *testing.T, store string) string {
	t.Helper()
	var b strings.Builder
	if err := filepath.WalkDir(store, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(path, store)
		if name == "/refs/helmdeck" || slices.Contains(spare, strings.TrimPrefix(name, "/")) { // git leaves it empty when it packs the refs
			return nil
		}
		if strings.HasPrefix(name, "/objects/pack/pack-") {
			name = "/objects/pack/pack" + filepath.Ext(name)
		}
		b.WriteString(info.Mode().String() + " " + name + "\n")
		if d.Type().IsRegular() && !strings.HasPrefix(name, "/objects/") {
			data, err := os.ReadFile(path)
			b.Write(data)
			return err
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestClone compares what Clone makes with what Fetch makes of an empty store.
func TestClone(t *testing.T) {
	withBothGits(t, func(t *testing.T, g *Git) {
		s := remote(t)
		testgit.Git(t, s.Path("r"), "update-ref", "refs/pull/7/head", "main~1")
		first := gitAt(t, s.Path("r"), "rev-parse", "v1.0.0^{commit}")
		for _, tt := range []struct {
			name  string
			fetch Fetch
		}{
			{"everything", Fetch{}},
			{"the default branch", Fetch{Refspecs: []string{"+HEAD:refs/helmdeck/HEAD"}}},
			{"another ref", Fetch{Refspecs: []string{"+refs/pull/7/head:refs/helmdeck/refs/07"}}},
			{"a commit", Fetch{Refspecs: []string{"+" + first + ":refs/helmdeck/commits/" + first}}},
			{"a depth", Fetch{Depth: 2}},
			{"no blobs", Fetch{NoBlobs: true}},
			{"a branch alone", Fetch{Depth: 1, Only: true, Refspecs: []string{"+refs/heads/feature/x:refs/heads/feature/x"}}},
			{"a commit alone", Fetch{Depth: 1, Only: true, Refspecs: []string{"+" + first + ":refs/helmdeck/commits/" + first}}},
			{"all of it", Fetch{Depth: 1, NoBlobs: true, Refspecs: []string{"+refs/pull/7/head:refs/helmdeck/refs/07"}}},
		} {
			t.Run(tt.name, func(t *testing.T) {
				f := tt.fetch
				f.Remote.URL = s.URL("r")
				f.Store = testgit.Owned(t, g.config.Root, fetcher)
				refs, err := g.Clone(t.Context(), f, gitref.SHA1)
				if err != nil {
					t.Fatal(err)
				}
				cloned := f.Store
				f.Store = store(t, g)
				if !f.Only {
					f.Refspecs = append(slices.Clone(everything), f.Refspecs...)
				}
				if err := g.Fetch(t.Context(), f); err != nil {
					t.Fatal(err)
				}
				if got, want := contents(t, cloned), contents(t, f.Store); got != want {
					t.Errorf("got\n%s\nwant\n%s", got, want)
				}
				want, err := g.Refs(f.Store)
				if err != nil || !slices.Equal(refs, want) {
					t.Errorf("refs %v, want %v (%v)", refs, want, err)
				}
				if err := g.Fetch(t.Context(), Fetch{
					Store: cloned, Remote: f.Remote, Refspecs: f.Refspecs, Prune: true, Depth: f.Depth, NoBlobs: f.NoBlobs,
				}); err != nil {
					t.Errorf("the next fetch: %v", err)
				}
			})
		}
	})
}

func TestCloneOtherRemotes(t *testing.T) {
	withBothGits(t, func(t *testing.T, g *Git) {
		for _, tt := range []struct {
			name, format string
			prepare      func(t *testing.T, bare string)
			want         giterror.Kind
		}{
			{"empty", gitref.SHA1, func(t *testing.T, bare string) {
				testgit.Git(t, "", "init", "-q", "--bare", bare)
			}, ""},
			{"empty, sha256", gitref.SHA256, func(t *testing.T, bare string) {
				testgit.Git(t, "", "init", "-q", "--bare", "--object-format=sha256", bare)
			}, ""},
			{"sha256", gitref.SHA256, sha256Repository, ""},
			{"another format than it said", gitref.SHA1, sha256Repository, giterror.KindServer},
			{"shallow", gitref.SHA1, func(t *testing.T, bare string) {
				whole := bare + "-whole.git"
				generate(t, whole)
				testgit.Git(t, "", "clone", "-q", "--bare", "--depth=1", "file://"+whole, bare)
			}, giterror.KindShallow},
		} {
			t.Run(tt.name, func(t *testing.T) {
				s := testgit.Serve(t)
				tt.prepare(t, s.Path("r"))
				dir := testgit.Owned(t, g.config.Root, fetcher)
				refs, err := g.Clone(t.Context(), Fetch{Store: dir, Remote: Remote{URL: s.URL("r")}}, tt.format)
				t.Logf("%d refs, %v", len(refs), err)
				if giterror.KindOf(err) != tt.want {
					t.Fatalf("error %v, want kind %q", err, tt.want)
				}
				if tt.want == giterror.KindShallow {
					wantShallow(t, g, s.URL("r"))
				}
				if err == nil {
					if got := gitAt(t, dir, "rev-parse", "--show-object-format"); got != tt.format {
						t.Errorf("format %s, want %s", got, tt.format)
					}
				}
			})
		}
	})
}

// wantShallow fetches from a remote with one commit of main, as its error says.
func wantShallow(t *testing.T, g *Git, url string) {
	t.Helper()
	for _, depth := range []int{1, 2} {
		f := Fetch{Store: testgit.Owned(t, g.config.Root, fetcher), Remote: Remote{URL: url}, Depth: depth}
		if _, err := g.Clone(t.Context(), f, gitref.SHA1); err != nil {
			t.Errorf("depth %d: %v", depth, err)
			continue
		}
		f.Refspecs = everything
		if err := g.Fetch(t.Context(), f); err != nil {
			t.Errorf("the next fetch with depth %d: %v", depth, err)
		}
		if got := gitAt(t, f.Store, "rev-list", "--count", "main"); got != "1" {
			t.Errorf("depth %d: %s commits of main, want 1", depth, got)
		}
	}
}

func generate(t *testing.T, bare string) {
	t.Helper()
	if _, err := gitserver.Generate(bare, gitserver.Spec{Seed: 1, Files: 20, Commits: 3, Changes: 2}); err != nil {
		t.Fatal(err)
	}
}

func sha256Repository(t *testing.T, bare string) {
	t.Helper()
	testgit.Git(t, "", "init", "-q", "--bare", "--initial-branch=main", "--object-format=sha256", bare)
	if _, err := gitserver.Commit(bare, "main", gitserver.Change{Path: "a", Content: "b"}); err != nil {
		t.Fatal(err)
	}
}

// TestCloneMissesObjects clones from a server that leaves an object out of its pack.
func TestCloneMissesObjects(t *testing.T) {
	withBothGits(t, func(t *testing.T, g *Git) {
		s := testgit.Serve(t)
		bare := s.Path("r")
		generate(t, bare)
		for _, rev := range []string{"main~2", "main~2^{tree}", "main~3:docs/with blanks.txt", "v1.0.0"} {
			lost := gitAt(t, bare, "rev-parse", rev)
			ids := gitAt(t, bare, "cat-file", "--batch-all-objects", "--batch-check=%(objectname)")
			pack := testgit.Command(bare, "pack-objects", "-q", filepath.Join(t.TempDir(), "p"))
			pack.Stdin = strings.NewReader(strings.Replace(ids+"\n", lost+"\n", "", 1))
			name, err := testgit.Run(pack)
			if err != nil {
				t.Fatal(err)
			}
			s.Wrap(gitserver.SendFile(pack.Args[len(pack.Args)-1] + "-" + name + ".pack"))
			dir := testgit.Owned(t, g.config.Root, fetcher)
			_, err = g.Clone(t.Context(), Fetch{Store: dir, Remote: Remote{URL: s.URL("r")}}, gitref.SHA1)
			if giterror.KindOf(err) != giterror.KindCorrupt {
				t.Errorf("without %s: %v, want kind %q", rev, err, giterror.KindCorrupt)
			}
		}
	})
}
