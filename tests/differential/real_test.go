package differential

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/helmdeck/repos/tests/testgit"
)

// realRefs is how many refs of a real repository are compared, in addition to HEAD.
const realRefs = 8

// TestRealRepositories compares volumes of the bare repositories in the directory REPOS with plain clones: the whole
// history of an older commit, the update to the newest one, then random branches and tags, then cold=shallow.
func TestRealRepositories(t *testing.T) {
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano())
	}
	for _, source := range realRepositories(t) {
		t.Run(strings.TrimSuffix(filepath.Base(source), ".git"), func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(*seed, 0))
			name := filepath.Base(t.Name())
			store := []string{"--git-dir=" + server.Path(name)}
			git := func(args ...string) string { t.Helper(); return testgit.Git(t, "/", append(store, args...)...) }
			borrow(t, source, name)
			tip, branch := git("rev-parse", "HEAD"), git("symbolic-ref", "--short", "HEAD")
			line := strings.Fields(git("rev-list", "--first-parent", "-n", "200", "HEAD"))
			old := line[rnd.IntN(len(line))]
			t.Logf("seed %d: %s, first at %s, then at %s", *seed, branch, old, tip)

			git("update-ref", "HEAD", old)
			p := newPair(t, name, nil)
			p.clone()
			p.same("cold")
			git("update-ref", "HEAD", tip)
			p.fetch("@{upstream}")
			p.same("after a push", "fsck")

			refs := strings.Fields(git("for-each-ref", "--format=%(refname)", "refs/heads", "refs/tags"))
			for _, at := range rnd.Perm(len(refs))[:min(len(refs), realRefs)] {
				p.other(name, refs[at])
			}
			newShallow(t, name, map[string]string{"ref": branch, "subject": "shallow"})
		})
	}
}

// realRepositories returns the bare repositories in REPOS. There are none without REPOS.
func realRepositories(t *testing.T) []string {
	dir := os.Getenv("REPOS")
	if dir == "" {
		return nil
	}
	heads, err := filepath.Glob(filepath.Join(dir, "*", "HEAD"))
	if err != nil || len(heads) == 0 {
		t.Fatalf("there are no bare repositories in REPOS=%s: %v", dir, err)
	}
	for i, head := range heads {
		heads[i] = filepath.Dir(head)
	}
	return heads
}

// borrow makes a repository on the server that has the refs of source, and reads its objects there.
func borrow(t *testing.T, source, name string) {
	t.Helper()
	source, err := filepath.Abs(source)
	if err != nil {
		t.Fatal(err)
	}
	read := []string{"-c", "safe.directory=*", "--git-dir=" + source}
	format := testgit.Git(t, "/", append(read, "rev-parse", "--show-object-format")...)
	path := server.Path(name)
	testgit.Git(t, "/", "init", "-q", "--bare", "--template=", "--object-format="+format, path)
	refs := testgit.Git(t, "/", append(read, "for-each-ref", "--format=create %(refname) %(objectname)")...)
	alternates := []byte(filepath.Join(source, "objects") + "\n")
	if err := os.WriteFile(filepath.Join(path, "objects/info/alternates"), alternates, 0o644); err != nil {
		t.Fatal(err)
	}
	testgit.Trees{T: t, Store: path}.Git(refs+"\n", nil, "update-ref", "--stdin")
	testgit.Git(t, path, "pack-refs", "--all")
	testgit.Git(t, path, "symbolic-ref", "HEAD", testgit.Git(t, "/", append(read, "symbolic-ref", "HEAD")...))
}

// other compares a volume of another ref with the plain clone, in which it checks out that ref.
func (p *pair) other(repo, ref string) {
	p.Run(strings.NewReplacer("refs/heads/", "", "refs/tags/", "", "/", "-").Replace(ref), func(t *testing.T) {
		other := newPair(t, repo, map[string]string{"ref": ref})
		at := ref
		branch, isBranch := strings.CutPrefix(ref, "refs/heads/")
		if isBranch {
			at = "refs/remotes/origin/" + branch
		}
		testgit.Git(t, p.plain, "checkout", "-q", "--force", "--detach", at)
		for local := range strings.FieldsSeq(testgit.Git(t, p.plain, "for-each-ref", "--format=%(refname:short)", "refs/heads")) {
			testgit.Git(t, p.plain, "branch", "-q", "-D", local)
		}
		if isBranch {
			testgit.Git(t, p.plain, "checkout", "-q", "-b", branch, "--track", at)
		}
		other.plain = p.plain
		other.reset(at)
		other.same(fmt.Sprintf("%s of the clone", ref), "fsck", "objects")
	})
}
