package main

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/internal/git/gitserver/lfsserver"
	"github.com/helmdeck/repos/tests/testgit"
)

// builder builds in warm directories of a repository, with the machine's make and Python.
type builder struct {
	pusher
	*process
	path   string // of the bare repository
	mounts int
}

// program has a Makefile that puts src.txt and lib/*.txt into out/prog, one by one, and a module for Python.
var program = map[string]string{
	"Makefile": "parts = $(patsubst %.txt,out/%,$(wildcard *.txt */*.txt))\nout/prog: $(parts)\n\tcat $^ >$@\n" +
		"out/%: %.txt\n\t@mkdir -p $(@D)\n\tcp $< $@\n",
	".gitignore": "out/\n__pycache__/\n",
	"src.txt":    "one\n", "lib/a.txt": "a\n", "mod.py": "X = 'one'\n",
}

func newBuilder(t *testing.T, p *process, s *gitserver.Server, name string) *builder {
	b := &builder{pusher: newRepo(t, s, name), process: p, path: s.Path(name)}
	b.pusher.commit(program, nil)
	return b
}

// change commits files on top of the work tree's commit, and sets main to that.
func (b *builder) change(files map[string]string) (commit string) {
	b.pusher.t.Helper()
	b.set("main", testgit.Git(b.pusher.t, b.dir, "rev-parse", "HEAD"))
	return b.pusher.commit(files, nil)
}

// set moves a branch of the remote to a commit that it has.
func (b *builder) set(branch, commit string) {
	b.pusher.t.Helper()
	testgit.Git(b.pusher.t, b.path, "update-ref", "refs/heads/"+branch, commit)
}

// volume creates a volume with warm directories.
func (b *builder) volume(name, ref string, options map[string]string) string {
	b.pusher.t.Helper()
	o := map[string]string{"repo": b.url, "ref": ref, "subject": filepath.Base(b.path), "warm": "out,__pycache__", "refresh": "always"}
	maps.Copy(o, options)
	b.create(filepath.Base(b.path)+"-"+name, o)
	return filepath.Base(b.path) + "-" + name
}

// open mounts a volume, whose state must be clean to git without a look at contents, and returns a function that unmounts it.
func (b *builder) open(volume string) (dir string, end func()) {
	b.pusher.t.Helper()
	b.mounts++
	id := fmt.Sprint("m", b.mounts)
	dir = b.mount(volume, id)
	if got := testgit.Git(b.pusher.t, dir, "-c", "safe.directory=*", "diff-files"); got != "" {
		b.pusher.t.Errorf("%s: the index does not fit: %s", volume, got)
	}
	if got := testgit.Git(b.pusher.t, dir, "-c", "safe.directory=*", "status", "--porcelain"); got != "" {
		b.pusher.t.Errorf("%s: status %q, want clean", volume, got)
	}
	return dir, func() { b.unmount(volume, id) }
}

// build runs make and Python in a workspace, and returns what they built and what they did.
func (b *builder) build(dir string) (built, did string) {
	b.pusher.t.Helper()
	run := func(name string, args ...string) string {
		cmd := exec.Command(name, args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "PYTHONDONTWRITEBYTECODE=")
		out, err := testgit.Run(cmd)
		if err != nil {
			b.pusher.t.Fatal(err)
		}
		return strings.TrimSpace(string(out))
	}
	did = run("make", "--no-print-directory")
	prog, err := os.ReadFile(filepath.Join(dir, "out/prog"))
	if err != nil {
		b.pusher.t.Fatal(err)
	}
	return strings.ReplaceAll(strings.TrimSpace(string(prog)), "\n", " ") + " / " + run("/usr/bin/python3", "-c", "import mod; print(mod.X)"), did
}

// wants mounts a volume, builds, and compares what was built.
func (b *builder) wants(what, volume, want string) (did string) {
	b.pusher.t.Helper()
	dir, end := b.open(volume)
	defer end()
	built, did := b.build(dir)
	if built != want {
		b.pusher.t.Errorf("%s: built %q, want %q; make did: %s", what, built, want, did)
	}
	return did
}

var two = map[string]string{"src.txt": "two\n", "mod.py": "X = 'two'\n"}

// TestWarmCommits builds in warm directories that were built from another commit. Each build must give what a build without
// them gives.
func TestWarmCommits(t *testing.T) {
	t.Parallel()
	s := testgit.Serve(t)
	p := start(t, scratch(t))
	const one, isTwo = "one a / one", "two a / two"
	for _, tt := range []struct {
		name string
		do   func(t *testing.T, b *builder, first, second string)
	}{
		{"set back", func(t *testing.T, b *builder, first, second string) {
			v := b.volume("v", "main", nil)
			b.wants("the first commit", v, one)
			b.set("main", second)
			b.wants("the second one", v, isTwo)
			if did := b.wants("the second one again", v, isTwo); !strings.Contains(did, "up to date") {
				t.Errorf("an equal commit is built again: %s", did)
			}
			for range 2 {
				b.set("main", first)
				b.wants("set back", v, one)
				if did := b.wants("set back, again", v, one); !strings.Contains(did, "up to date") {
					t.Errorf("an equal commit is built again: %s", did)
				}
				b.set("main", second)
				if did := b.wants("the second one again", v, isTwo); strings.Contains(did, "cp lib/a") {
					t.Errorf("a file that is the same in both is built again: %s", did)
				}
			}
		}},
		{"options", func(t *testing.T, b *builder, first, second string) {
			for i, options := range []map[string]string{{"depth": "1"}, {"sparse": "lib"}, {"filter": "blob:none"}, {"uid": "1234", "gid": "1234"}, {"mode": "shared"}} {
				options["warm_key"] = fmt.Sprint(i)
				v := b.volume(fmt.Sprint(i), "main", options)
				for range 2 {
					b.set("main", second)
					b.wants("the second commit", v, isTwo)
					b.set("main", first)
					b.wants("set back", v, one)
				}
			}
		}},
		{"other branch", func(t *testing.T, b *builder, first, second string) {
			b.set("old", first)
			old := b.volume("cold", "old", map[string]string{"warm": ""})
			_, end := b.open(old) // its tree exists, and has times of now
			end()
			b.set("main", second)
			b.wants("main", b.volume("main", "main", nil), isTwo)
			b.wants("a branch without a head of its own", b.volume("old", "old", nil), one)
		}},
		{"commits", func(t *testing.T, b *builder, first, second string) {
			for i := range 2 {
				b.wants("first", b.volume(fmt.Sprint("a", i), first, nil), one)
				b.wants("second", b.volume(fmt.Sprint("b", i), second, nil), isTwo)
			}
			b.wants("main at the first", b.volume("main", "main", nil), one)
			b.set("main", second) // which was tested by its hash
			b.wants("merged", b.volume("merged", "main", nil), isTwo)
		}},
		{"at once", func(t *testing.T, b *builder, first, second string) {
			b.wants("second", b.volume("b", second, nil), isTwo)
			v := b.volume("a", first, map[string]string{"publish": "never"})
			var g sync.WaitGroup
			for i := range 8 {
				g.Go(func() {
					if err := b.tryMount(v, fmt.Sprint("at-once", i)); err != nil {
						t.Error(err)
					}
				})
			}
			g.Wait()
			layers, err := filepath.Glob(filepath.Join(b.at.data, "clones", filepath.Base(b.path), "*/warm/*/files/.git/index"))
			if err != nil || len(layers) != 1 {
				t.Errorf("8 workspaces have %d layers of times, %v", len(layers), err)
			}
			for i := range 8 {
				b.unmount(v, fmt.Sprint("at-once", i))
			}
			b.wants("first", v, one)
		}},
		{"while a build runs", func(t *testing.T, b *builder, first, second string) {
			v := b.volume("v", "main", nil)
			dir, end := b.open(v)
			b.set("main", second)
			if list, err := b.admin().Refresh(t.Context(), api.Refresh{Repo: b.url, Subject: filepath.Base(b.path)}); err != nil || len(list) == 0 {
				t.Fatalf("refresh: %+v, %v", list, err)
			}
			if built, _ := b.build(dir); built != one {
				t.Errorf("built %q", built)
			}
			end()
			b.wants("a tree that a refresh made", v, isTwo)
		}},
		{"kinds", func(t *testing.T, b *builder, first, second string) {
			v := b.volume("v", "main", nil)
			b.set("main", second)
			gone := b.change(map[string]string{"added.txt": "added\n"})
			b.wants("added", v, "added two a / two")
			b.set("main", second)
			dir, end := b.open(v) // make does not see that a file is gone, nor does it in a clone that stays
			b.run(dir, "rm out/prog")
			b.build(dir)
			end()
			b.set("main", gone)
			b.wants("added again", v, "added two a / two")
			link, err := gitserver.Commit(b.path, "main", gitserver.Change{Path: "added.txt", Content: "lib/a.txt", Mode: "120000"})
			if err != nil {
				t.Fatal(err)
			}
			b.wants("a link", v, "a two a / two")
			b.set("main", gone)
			b.wants("no link", v, "added two a / two")
			b.set("main", link)
			b.wants("a link again", v, "a two a / two")
			other, err := gitserver.Commit(b.path, "main", gitserver.Change{Path: "added.txt", Content: "src.txt", Mode: "120000"}, gitserver.Change{Path: "src.txt", Content: "two\n", Mode: "100755"})
			if err != nil {
				t.Fatal(err)
			}
			b.wants("another link and a mode", v, "two two a / two")
			b.set("main", link)
			if did := b.wants("the first link, and mode", v, "a two a / two"); !strings.Contains(did, "src.txt") {
				t.Errorf("another mode is no change: %s", did)
			}
			b.set("main", other)
			b.wants("the other link again", v, "two two a / two")
		}},
		{"a part is built", func(t *testing.T, b *builder, first, second string) {
			v := b.volume("v", "main", nil)
			b.wants("first", v, one)
			b.set("main", second)
			dir, end := b.open(v)
			if err := os.WriteFile(filepath.Join(dir, "out/note"), nil, 0o644); err != nil {
				t.Fatal(err)
			}
			end() // the head is that of the second commit, and its product that of the first
			b.wants("what was left out", v, isTwo)
			b.set("main", first)
			dir, end = b.open(v)
			if err := os.WriteFile(filepath.Join(dir, "out/note"), nil, 0o644); err != nil {
				t.Fatal(err)
			}
			end()
			unrelated := b.change(map[string]string{"unrelated": "two"})
			testgit.Git(t, b.dir, "reset", "-q", "--hard", first)
			b.change(map[string]string{"unrelated": "u"})
			b.wants("what was left out, at a third commit", v, one)
			b.set("main", unrelated)
			b.wants("and at a fourth", v, isTwo)
		}},
		{"left out", func(t *testing.T, b *builder, first, second string) {
			v := b.volume("v", "main", map[string]string{"warm": "lib,out,__pycache__"})
			b.wants("first", v, one)
			dir, end := b.open(v)
			b.run(dir, "echo b >lib/a.txt")
			if built, _ := b.build(dir); built != "one b / one" {
				t.Errorf("built %q", built)
			}
			end() // lib is the commit's: out alone is carried over
			b.wants("a warm path that the commit has was edited", v, one)
		}},
		{"edited", func(t *testing.T, b *builder, first, second string) {
			v := b.volume("v", "main", nil)
			for name, edit := range map[string]string{
				"written":  "echo edited >src.txt; echo \"X = 'EEE'\" >mod.py",
				"replaced": "rm -r src.txt mod.py lib; mkdir lib; echo b >lib/a.txt; echo edited >src.txt; echo \"X = 'EEE'\" >mod.py",
				"moved":    "mv src.txt lib/b.txt; mv lib old; mkdir lib; cp old/* lib; echo edited >src.txt; cp mod.py new.py; mv new.py mod.py",
				"switched": "git checkout -q origin/second",
				"removed":  "rm src.txt; echo other >other.txt",
				"times":    "touch -d 2001-01-01 src.txt mod.py; chmod 600 lib/a.txt",
			} {
				b.wants("before", v, one)
				dir, end := b.open(v)
				b.run(dir, edit)
				if built, _ := b.build(dir); built == one && name != "times" {
					t.Errorf("%s: the edit had no effect", name)
				}
				end()
				b.wants(name, v, one)
			}
			b.wants("before", v, one)
			dir, end := b.open(v)
			b.run(dir, "chown -R 7:7 .")
			b.build(dir)
			end()
			if did := b.wants("another owner", v, one); !strings.Contains(did, "up to date") {
				t.Errorf("files with another owner are built again: %s", did)
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := *p
			p.t = t
			b := newBuilder(t, &p, s, strings.ReplaceAll(tt.name, " ", "-"))
			first := testgit.Git(t, b.dir, "rev-parse", "HEAD")
			second := b.change(two)
			b.set("main", first)
			b.set("second", second)
			tt.do(t, b, first, second)
		})
	}
}

// run runs a script in a workspace.
func (b *builder) run(dir, script string) {
	b.pusher.t.Helper()
	cmd := exec.Command("sh", "-ec", script)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		b.pusher.t.Fatalf("%s: %v\n%s", script, err, out)
	}
}

// TestWarmCommitSubmodules builds from a file of a submodule, and from one of git-lfs.
func TestWarmCommitSubmodules(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	t.Parallel()
	s, lfs := testgit.Serve(t), new(lfsserver.Server)
	s.Route("super", lfs.Serve)
	p := start(t, scratch(t))
	sub := newRepo(t, s, "sub")
	subOne := sub.commit(map[string]string{"s.txt": "s1\n"}, nil)
	subTwo := sub.commit(map[string]string{"s.txt": "s2\n"}, nil)
	b := newBuilder(t, p, s, "super")
	big := func(text string) map[string]string {
		return map[string]string{"big.txt": lfs.Put(text).String(), ".gitattributes": "big.txt filter=lfs diff=lfs merge=lfs -text\n", ".gitmodules": section("sub", "sub", s.URL("sub"))}
	}
	first := b.pusher.commit(big("L1\n"), map[string]string{"sub": subOne})
	second := b.pusher.commit(big("L2\n"), map[string]string{"sub": subTwo})
	for _, submodules := range []string{"true", "recursive", "false"} {
		t.Log(submodules)
		want := map[string]string{first: "L1 one a s1 / one", second: "L2 one a s2 / one"}
		if submodules == "false" {
			want = map[string]string{first: "L1 one a / one", second: "L2 one a / one"}
		}
		v := b.volume(submodules, "main", map[string]string{"submodules": submodules, "warm_key": submodules})
		for range 2 {
			for _, commit := range []string{first, second} {
				b.set("main", commit)
				dir, end := b.open(v)
				if submodules != "false" {
					if got := testgit.Git(t, filepath.Join(dir, "sub"), "diff-files"); got != "" {
						t.Errorf("the index of the submodule does not fit: %s", got)
					}
				}
				if built, did := b.build(dir); built != want[commit] {
					t.Errorf("submodules=%s: built %q, want %q; make did %s", submodules, built, want[commit], did)
				}
				end()
			}
		}
	}
}
