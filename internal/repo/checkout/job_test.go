package checkout

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/git/giterror"
	"github.com/helmdeck/repos/internal/git/gitindex"
	"github.com/helmdeck/repos/internal/work"
	"github.com/helmdeck/repos/tests/testgit"
)

// withSelf returns a Git that runs a script instead of the program that checks out. The
// script gets the job on its standard input.
func withSelf(t *testing.T, text string) tester {
	t.Helper()
	return newGitWith(t, git.Config{Self: testgit.Script(t, text)})
}

// TestJobFails checks that the end and the output of a job's process are handled like
// untrusted input: they can't make a good store look corrupt, and no path in them leads
// out of the checkout.
func TestJobFails(t *testing.T) {
	t.Parallel()
	b64 := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
	id := strings.Repeat("1", 40)
	pointer := func(path, oid string) string {
		return fmt.Sprintf(`{"Pointers":[{"Path":%q,"OID":%q,"Size":1}]}`, b64(path), oid)
	}
	link := func(path, id string) string {
		return fmt.Sprintf(`{"Gitlinks":[{"Path":%q,"Commit":%q}]}`, b64(path), id)
	}
	many := func(name string, n int) string {
		return fmt.Sprintf(`echo '{"%s":[' && yes '{},' | head -n %d && echo '{}]}'`, name, n)
	}
	oid := strings.Repeat("a", 64)
	say := func(s string) string { return "printf %s '" + s + "'" }
	for _, tt := range []struct {
		name, script string
		kind         giterror.Kind
		want         string
	}{
		{"a panic with git's words", "echo 'panic: loose object is corrupt' >&2; exit 2", giterror.KindOther, "crashed"},
		{"words without a panic", "echo 'fatal: bad object: corrupt' >&2; exit 1", giterror.KindOther, "crashed"},
		{"no memory", "echo 'fatal error: runtime: cannot allocate memory' >&2; exit 2", giterror.KindLimit, "MiB of memory"},
		{"killed", "kill -KILL $$", giterror.KindLimit, "memory is short"},
		{"aborted", "kill -ABRT $$", giterror.KindOther, "crashed"},
		{"a program that does not serve jobs", "echo 'flag provided but not defined: -git-job' >&2; exit 2", giterror.KindOther, "not defined"},
		{"nothing", "true", giterror.KindOther, "garbage"},
		{"no JSON", say("not JSON"), giterror.KindOther, "garbage"},
		{"another type", say(`{"Tracked":[]}`), giterror.KindOther, "garbage"},
		{"an unknown field", say(`{"Other":1}`), giterror.KindOther, "garbage"},
		{"an unknown field in a list", say(`{"Pointers":[{"Other":1}]}`), giterror.KindOther, "garbage"},
		{"two answers", say(`{}{}`), giterror.KindOther, "garbage"},
		{"no end", "yes | head -c 40000000", giterror.KindOther, "bytes of output"},
		{"too many pointers", many("Pointers", maxPointers+1), giterror.KindOther, "more than"},
		{"too many submodules", many("Gitlinks", maxGitlinks+1), giterror.KindOther, "more than"},
		{"too many sections", many("Submodules", maxGitlinks+1), giterror.KindOther, "more than"},
		{"a pointer outside", say(pointer("../x", oid)), giterror.KindOther, "garbage"},
		{"an absolute pointer", say(pointer("/etc/passwd", oid)), giterror.KindOther, "garbage"},
		{"an object outside", say(pointer("x", "../../"+oid[6:])), giterror.KindOther, "garbage"},
		{"a short object", say(pointer("x", "a")), giterror.KindOther, "garbage"},
		{"a submodule outside", say(link("a/../../x", id)), giterror.KindOther, "garbage"},
		{"a submodule's commit that is none", say(link("x", "-"+id[1:])), giterror.KindOther, "garbage"},
		{"a large job is never done", say(`{"Large":true}`), giterror.KindOther, "no progress"},
		{"a job is never done", say(`{"Large":true}`), giterror.KindOther, "no progress"},
		{"a full disk that is not full", say(`{"Failure":{"Full":true}}`), giterror.KindOther, "failed"},
		{"git was killed", say(`{"Failure":{"Signal":9}}`), giterror.KindLimit, "memory is short"},
		{"too little memory for the index", say(`{"Failure":{"Memory":true}}`), giterror.KindLimit, "MiB of memory"},
		{"git has no memory", say(fmt.Sprintf(`{"Failure":{"Stderr":%q}}`, b64("fatal: Out of memory, malloc failed\n"))), giterror.KindLimit, "MiB of memory"},
		{"git says that the store is damaged", say(fmt.Sprintf(`{"Failure":{"Stderr":%q}}`, b64("fatal: bad object "+id+"\n"))), giterror.KindCorrupt, id},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			g := withSelf(t, "cat >/dev/null\n"+tt.script)
			c := Spec{Store: store(t, g), Commit: id, Dir: checkoutDir(t, testgit.Scratch(t, ""), "x")}
			if tt.name == "a large job is never done" {
				if err := os.Truncate(emptyFile(t, filepath.Join(c.Dir, ".git", IndexFile)), largeIndex+1); err != nil {
					t.Fatal(err)
				}
			}
			f, err := g.make(t.Context(), c)
			if err == nil || giterror.KindOf(err) != tt.kind || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), id) {
				t.Errorf("%+v, %v, of kind %q; want %q, of kind %q", f, err, giterror.KindOf(err), tt.want, tt.kind)
			}
		})
	}
}

func emptyFile(t *testing.T, path string) string {
	t.Helper()
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestJobLeavesNoProcess checks that no process remains, however a job ends while its git
// runs.
func TestJobLeavesNoProcess(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, git string
		canceled  bool
		want      giterror.Kind
	}{
		{"git ends at TERM", "exec sleep 1000", true, giterror.KindCanceled},
		{"git ignores TERM", "trap '' TERM; sleep 1000 & sleep 1000 & wait; wait", true, giterror.KindCanceled},
		{"the job is killed", "kill -KILL $PPID; exec sleep 1000", false, giterror.KindLimit},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			g := newGit(t)
			c := Spec{Store: store(t, g), Commit: strings.Repeat("1", 40), Dir: testgit.Owned(t, "", fetcher), UID: fetcher, GID: fetcher}
			c.GitDir = c.Dir
			script := testgit.Watch(t, c.Dir, tt.git)
			g = newGitWith(t, git.Config{Program: script.Program})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ended := make(chan error, 1)
			go func() {
				_, err := g.make(ctx, c)
				ended <- err
			}()
			script.Await()
			if tt.canceled {
				cancel()
			}
			if err := <-ended; giterror.KindOf(err) != tt.want {
				t.Errorf("checkout: %v, of kind %q, want %q", err, giterror.KindOf(err), tt.want)
			}
			script.WantGone()
		})
	}
}

// TestManyNames checks out a repository of a kilobyte with a million names. The job needs
// memory for them, the plugin does not; a job without enough memory fails with an error,
// and large jobs wait for each other.
func TestManyNames(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	const parents = 8 << 20 // bytes; the index alone has 72 MB
	scheduler := work.NewScheduler(work.DefaultLimits(4))
	g := newGitWith(t, git.Config{Scheduler: scheduler})
	w := newTrees(t, g)
	tree := func(n int, mode, id string, more ...string) string {
		for i := range n {
			more = append(more, w.Entry(mode, fmt.Sprintf("n%02d", i), id))
		}
		return w.Tree(more...)
	}
	many := tree(100, "40000", tree(100, "40000", tree(100, "100644", w.Blob("x\n"))))
	commit := func(content string) string {
		root := tree(0, "", "", w.Entry("100644", "f", w.Blob(content)), w.Entry("40000", "many", many))
		return w.Git("", nil, "commit-tree", "-m", "m", root)
	}
	from := commit("one\n")
	to := commit("two\n")
	measured := func(name string, f func() error) {
		t.Helper()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := f()
		runtime.ReadMemStats(&after)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := after.TotalAlloc - before.TotalAlloc; got > parents {
			t.Errorf("%s: the plugin has allocated %d KiB", name, got>>10)
		}
	}
	c := Spec{Store: w.Store, Commit: from, Cone: gitindex.Cone{"none"}, Dir: checkoutDir(t, testgit.Scratch(t, ""), "x"), Tracks: "many/n00"}

	// A large job waits for the one that runs, a small job does not.
	slot, err := scheduler.Acquire(t.Context(), work.CPU, true)
	if err != nil {
		t.Fatal(err)
	}
	own := work.WithOwner(t.Context(), work.Owner{Name: "test"})
	ended := make(chan error, 1)
	measured("check out", func() error {
		var found Found
		go func() {
			var err error
			found, err = g.make(own, c)
			ended <- err
		}()
		for made := false; !made; runtime.Gosched() {
			if !work.JobOf(own).Queued() {
				continue
			}
			size, err := sizeOf(filepath.Join(c.gitDir(), IndexFile))
			if err != nil {
				return err
			}
			made = size > largeIndex
		}
		slot.Release()
		err := <-ended
		if err == nil && !found.Tracked {
			err = fmt.Errorf("%s is not found", c.Tracks)
		}
		return err
	})
	c.Commit = to
	measured("move", func() error {
		_, err := g.move(t.Context(), c, from)
		return err
	})
	if data, err := os.ReadFile(filepath.Join(c.Dir, "f")); string(data) != "two\n" {
		t.Errorf("f is %q, %v", data, err)
	}

	// Enough memory for the program to start, but not for the index.
	g = newGitWith(t, git.Config{Memory: 192 << 20, Scheduler: scheduler})
	c.Commit = commit("three\n")
	_, err = g.move(t.Context(), c, to)
	if giterror.KindOf(err) != giterror.KindLimit || !strings.Contains(err.Error(), "192 MiB of memory") || !strings.Contains(err.Error(), c.Commit) {
		t.Errorf("move with little memory: %v, of kind %q", err, giterror.KindOf(err))
	}
	c.Dir = checkoutDir(t, testgit.Scratch(t, ""), "y")
	_, err = g.make(t.Context(), c)
	if giterror.KindOf(err) != giterror.KindLimit || !strings.Contains(err.Error(), "192 MiB of memory") || !strings.Contains(err.Error(), c.Commit) {
		t.Errorf("checkout with little memory: %v, of kind %q", err, giterror.KindOf(err))
	}
}
