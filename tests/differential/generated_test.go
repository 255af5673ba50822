package differential

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/tests/short"
	"github.com/helmdeck/repos/tests/testdir"
	"github.com/helmdeck/repos/tests/testgit"
	"github.com/helmdeck/repos/tests/wait"
)

var (
	seed         = flag.Uint64("seed", 0, "the seed of the generated repositories; 0: a new one")
	repositories = flag.Int("repositories", 200, "how many repositories TestGenerated makes")
)

// pair is a volume, and a plain clone of the same repository.
type pair struct {
	*testing.T
	repo, volume, plain string
	mounts              int
}

// made counts pairs.
var made atomic.Int64

// newPair creates a volume of a repository on the server. The end of the test removes it.
func newPair(t *testing.T, repo string, options map[string]string) *pair {
	t.Helper()
	p := &pair{T: t, repo: server.URL(repo), volume: fmt.Sprint("v", made.Add(1)), plain: filepath.Join(testdir.New(t, "plain"), "r")}
	all := map[string]string{"repo": p.repo, "cache": "off", "refresh": "always"}
	for name, value := range options {
		all[name] = value
	}
	if err := plugin.Create(t.Context(), p.volume, all); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := plugin.Remove(context.WithoutCancel(t.Context()), p.volume); err != nil {
			t.Error(err)
		}
	})
	return p
}

// mount calls f with a new workspace.
func (p *pair) mount(f func(dir string)) {
	p.Helper()
	p.mounts++
	id := fmt.Sprint(p.mounts)
	dir, err := plugin.Mount(p.Context(), p.volume, id)
	if err != nil {
		p.Fatal(err)
	}
	defer func() {
		if err := plugin.Unmount(p.Context(), p.volume, id); err != nil {
			p.Error(err)
		}
	}()
	f(dir)
}

// clone makes the plain clone.
func (p *pair) clone(args ...string) {
	p.Helper()
	if err := os.RemoveAll(p.plain); err != nil {
		p.Fatal(err)
	}
	testgit.Git(p, "/", append(append([]string{"-c", "gc.auto=0", "clone", "-q"}, args...), p.repo, p.plain)...)
}

// same compares a new workspace with the plain clone, without some kinds of facts.
func (p *pair) same(when string, omit ...string) {
	p.Helper()
	p.mount(func(dir string) { p.compare(when, dir, p.plain, omit...) })
}

// compare compares a repository of a workspace with a plain one.
func (p *pair) compare(when, dir, plain string, omit ...string) {
	p.Helper()
	different, err := compare(dir, plain, omit...)
	if err != nil {
		p.Errorf("%s: %v", when, err)
	}
	if different != "" {
		p.Errorf("%s:\n%s", when, different)
	}
}

// TestGenerated compares volumes of random repositories with plain clones: first mounts, and mounts after a push.
func TestGenerated(t *testing.T) {
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano())
	}
	sub, err := gitserver.Generate(server.Path("sub"), gitserver.Spec{Seed: 1, Files: 3, Commits: 2, Changes: 1})
	if err != nil {
		t.Fatal(err)
	}
	for i := range *repositories {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			short.OneOf(t, 20)
			t.Parallel()
			rnd := rand.New(rand.NewPCG(*seed, uint64(i)))
			name := fmt.Sprint("r", i)
			v, err := gitserver.Vary(server.Path(name), rnd, sub)
			if err != nil {
				t.Fatalf("seed %d: %v", *seed, err)
			}
			kind := kinds[rnd.IntN(len(kinds))]
			t.Logf("seed %d: %s; %s", *seed, kind.name, strings.Join(v.Made, "; "))
			p, pushed := kind.cold(t, name, v, rnd)
			if pushed.branch != "" && i%2 == 0 {
				p.push(v, pushed)
			}
		})
	}
}

// kinds are the kinds of volumes that TestGenerated chooses from. Each compares first mounts.
var kinds = []struct {
	name string
	cold func(t *testing.T, name string, v *gitserver.Varied, rnd *rand.Rand) (*pair, pushed)
}{
	{"HEAD", ofHead}, {"HEAD", ofHead}, {"a branch", ofBranch}, {"a branch", ofBranch}, {"a tag", ofTag},
	{"a commit", ofCommit}, {"cold=shallow", shallow}, {"depth", ofDepth},
}

// pushed says how a volume can be compared after a push.
type pushed struct {
	branch string // gets a commit; empty: the volume can't be compared
	to     string // where the volume is then, as the plain clone names it
}

// push pushes, brings the plain clone to the same state, and compares it with the next mount.
func (p *pair) push(v *gitserver.Varied, what pushed) {
	p.Helper()
	if err := v.Push(what.branch); err != nil {
		p.Fatal(err)
	}
	p.fetch(what.to)
	p.same("after a push")
}

// fetch gives the plain clone the refs of the remote, and checks out a commit of them.
func (p *pair) fetch(to string) {
	p.Helper()
	testgit.Git(p, p.plain, "-c", "gc.auto=0", "fetch", "-q", "--force", "--prune", "--prune-tags", "origin",
		"+refs/heads/*:refs/remotes/origin/*", "+refs/tags/*:refs/tags/*")
	p.reset(to)
}

// reset makes the plain clone's branch, and its files, be at a commit.
func (p *pair) reset(to string) {
	p.Helper()
	testgit.Git(p, p.plain, "reset", "-q", "--hard", to)
	// Without its index, git writes all files again, because their attributes may have changed.
	if err := os.Remove(filepath.Join(p.plain, ".git/index")); err != nil {
		p.Fatal(err)
	}
	testgit.Git(p, p.plain, "reset", "-q", "--hard")
}

func ofHead(t *testing.T, name string, v *gitserver.Varied, _ *rand.Rand) (*pair, pushed) {
	if v.Module {
		p := newPair(t, name, map[string]string{"submodules": "true"})
		p.clone("--recurse-submodules")
		p.mount(func(dir string) {
			p.compare("cold", dir, p.plain)
			p.compare("the submodule", filepath.Join(dir, "lib/sub"), filepath.Join(p.plain, "lib/sub"))
		})
		return p, pushed{}
	}
	p := newPair(t, name, nil)
	p.clone()
	p.same("cold")
	return p, pushed{v.Branches[0], "@{upstream}"}
}

func ofBranch(t *testing.T, name string, v *gitserver.Varied, rnd *rand.Rand) (*pair, pushed) {
	branch := v.Branches[rnd.IntN(len(v.Branches))]
	p := newPair(t, name, map[string]string{"ref": branch})
	p.clone("--branch=" + branch)
	p.same("cold")
	return p, pushed{branch, "@{upstream}"}
}

func ofTag(t *testing.T, name string, v *gitserver.Varied, _ *rand.Rand) (*pair, pushed) {
	p := newPair(t, name, map[string]string{"ref": v.Tags[0]})
	p.clone("--branch=" + v.Tags[0])
	p.same("cold")
	return p, pushed{v.Branches[0], v.Tags[0]}
}

func ofCommit(t *testing.T, name string, v *gitserver.Varied, rnd *rand.Rand) (*pair, pushed) {
	all := strings.Fields(testgit.Git(t, "/", "--git-dir="+v.Path, "rev-list", "--branches"))
	slices.Sort(all)
	commit := all[rnd.IntN(len(all))]
	p := newPair(t, name, map[string]string{"ref": commit})
	p.clone()
	testgit.Git(t, p.plain, "checkout", "-q", "--detach", commit)
	p.reset(commit)
	testgit.Git(t, p.plain, "branch", "-q", "-D", v.Branches[0])
	p.same("cold")
	return p, pushed{}
}

func ofDepth(t *testing.T, name string, _ *gitserver.Varied, rnd *rand.Rand) (*pair, pushed) {
	depth := fmt.Sprint(1 + rnd.IntN(5))
	p := newPair(t, name, map[string]string{"depth": depth})
	p.clone("--depth="+depth, "--no-single-branch")
	p.same("cold")
	return p, pushed{}
}

// shallow compares the first mount with a shallow clone, and the first one that has the full history with a full one.
func shallow(t *testing.T, name string, v *gitserver.Varied, rnd *rand.Rand) (*pair, pushed) {
	branch := v.Branches[rnd.IntN(len(v.Branches))]
	p, deepen := newShallow(t, name, map[string]string{"ref": branch})
	deepen()
	p.clone("--branch=" + branch)
	if err := wait.Until(t, func() (err error) {
		p.mount(func(dir string) {
			if testgit.About(p, dir)["shallow"] == true {
				err = errors.New("a mount has the history of one commit")
			}
		})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	p.same("full")
	return p, pushed{branch, "@{upstream}"}
}

// newShallow compares the first mount of a volume with cold=shallow with a shallow clone. The server sends no full
// history until deepen is called, or the test ends.
func newShallow(t *testing.T, name string, options map[string]string) (p *pair, deepen func()) {
	t.Helper()
	gate := gitserver.NewGate()
	deepen = sync.OnceFunc(func() { close(gate.Open) })
	t.Cleanup(deepen)
	server.Route(name, gitserver.OnDepth(false, gate.Fault))
	options["cold"] = "shallow"
	p = newPair(t, name, options)
	p.clone("--depth=1", "--no-tags", "--branch="+options["ref"])
	testgit.Git(t, p.plain, "repack", "-q", "-a", "-d") // without the objects of tags, which the server sends
	p.same("shallow")
	return p, deepen
}
