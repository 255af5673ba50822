package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/git/gitserver/lfsserver"
	"github.com/helmdeck/repos/tests/short"
	"github.com/helmdeck/repos/tests/testgit"
	"github.com/helmdeck/repos/tests/wait"
)

// checkpoint makes a checkpoint of the only workspace of a volume, which goes on, and returns its ID.
func (p *process) checkpoint(name string) (string, error) {
	list, err := p.admin().Workspaces(p.t.Context(), api.Filter{Volume: name})
	list = slices.DeleteFunc(list, func(w api.Workspace) bool { return w.Phase != "mounted" && w.Phase != "parked" })
	if err != nil || len(list) != 1 {
		return "", fmt.Errorf("the workspaces of %s are %d, %w", name, len(list), err)
	}
	d, err := p.admin().Draft(p.t.Context(), list[0].ID, api.Note{})
	if err == nil {
		_, err = p.admin().CatchUp(p.t.Context(), d.ID)
	}
	if err == nil {
		_, err = p.admin().Keep(p.t.Context(), d.ID)
	}
	return d.ID, err
}

// inState is a script that prints what git and programs see of a workspace.
const inState = `git status --porcelain=v2 --branch --ignored; git ls-files -t; git rev-parse HEAD --is-shallow-repository; git stash list --format=%H; git for-each-ref
git worktree list; git -C wt status --porcelain; git submodule status; git config --get-regexp 'remote|extensions|sparse'; cat mine text; find . -path ./.git/hdcache -prune -o -type f -path '*.bin' -exec sha1sum {} + | sort
[ ! -e sub/.git ] || { git -C sub status --porcelain; git -C sub rev-parse HEAD; }; cat nm/x 2>/dev/null || true`

// TestForksOfShapes: what begins with a checkpoint has the state of the workspace, whatever the options of its volume: the
// same index, branches, stash and worktrees, the content of LFS files, and submodules that work.
func TestForksOfShapes(t *testing.T) {
	t.Parallel()
	s, lfs := testgit.Serve(t), new(lfsserver.Server)
	big, small := lfs.Put("big\n"), lfs.Put("small\n")
	sub := lfsRepo(t, s, lfs, "sub")
	subAt := sub.commit(map[string]string{".gitattributes": lfsserver.Attributes, "s.bin": small.String(), "s": "s\n"}, nil)
	w := lfsRepo(t, s, lfs, "app")
	w.commit(map[string]string{"text": "first\n"}, nil)
	w.commit(map[string]string{
		".gitattributes": lfsserver.Attributes, "a/big.bin": big.String(), "b/small.bin": small.String(), "text": "text\n", "gone": "gone\n", ".gitignore": "nm\n*.o\n",
		".gitmodules": section("sub", "sub", "../sub"),
	}, map[string]string{"sub": subAt})
	if err := s.Configure("app", "uploadpack.allowFilter", "true"); err != nil {
		t.Fatal(err)
	}
	p := start(t, scratch(t))
	for name, options := range map[string]map[string]string{
		"plain": nil, "owner": {"uid": "1234", "gid": "2345"}, "shared": {"mode": "shared"}, "keep": {"mode": "keep"},
		"submodules": {"submodules": "true"}, "pointers": {"lfs": "false"}, "sparse": {"sparse": "a"}, "depth": {"depth": "1"}, "filter": {"filter": "blob:none"},
		"cold": {"cold": "shallow"}, "warm": {"warm": "nm"}, "no-cache": {"cache": "off"}, "marked": {"publish": "marked"}, "never": {"publish": "never"},
		"warm-marked": {"warm": "nm", "publish": "marked"}, "warm-never": {"warm": "nm", "publish": "never"},
		"auth": {"auth": "container"}, "all": {"submodules": "true", "warm": "nm", "uid": "7", "gid": "7", "mode": "keep", "sparse": "b", "publish": "marked"},
	} {
		t.Run(name, func(t *testing.T) {
			short.OneOf(t, 5)
			given := map[string]string{"repo": s.URL("app"), "ref": "main", "subject": name} // so that each has a clone of its own
			maps.Copy(given, options)
			uid := given["uid"]
			if uid == "" {
				uid = "0"
			}
			p.create(name, given)
			dir := p.mount(name, "1")
			out, err := inContainer(dir, uid, `echo stashed >>text; git stash -q; echo mine >mine; git add mine; git commit -qm mine; echo more >>mine; echo x >untracked; echo x >x.o; rm -f gone; mkdir -p nm; echo warm >nm/x
				git worktree add -q wt -b side; echo x >wt/new; [ ! -e sub/.git ] || { echo x >sub/new; git -C sub switch -qc topic; }; echo x >.git/index.lock`)
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			want, err := inContainer(dir, uid, inState)
			if err != nil {
				t.Fatalf("%v: %s", err, want)
			}
			running, err := p.checkpoint(name)
			if err != nil {
				t.Fatal(err)
			}
			p.unmount(name, "1")
			if err := p.Remove(t.Context(), name); err != nil {
				t.Fatal(err)
			}
			ids := []string{running}
			wait.For(t, "the checkpoint of the end", func() error {
				list, err := p.admin().Checkpoints(t.Context(), api.Filter{Subject: name})
				if err != nil {
					t.Fatal(err)
				}
				for _, d := range list {
					if d.ID != running && d.Volume == name {
						ids = append(ids, d.ID)
					}
				}
				return wait.Check(len(ids) > 1, "%v", ids)
			})
			for i, id := range ids {
				fork := fmt.Sprint(name, "-", i)
				p.create(fork, map[string]string{"repo": s.URL("app"), "subject": name, "from": id})
				at := p.mount(fork, "1")
				if name == "warm" && i == 1 { // what is at warm paths at the end went to the next workspaces of the ref
					want = strings.TrimSuffix(strings.Replace(want, "! nm/\n", "", 1), "warm\n")
				}
				if got, err := inContainer(at, uid, inState); err != nil || got != want {
					t.Errorf("fork %d: %v: it has\n%s\nwant\n%s", i, err, got, want)
				}
				if out, err := inContainer(at, uid, `git add -A -- mine untracked; git commit -qm later; git stash pop -q; git -C wt add new; git -C wt commit -qm w; git fsck --no-dangling 2>&1
					[ ! -e sub/.git ] || { git -C sub add new; git -C sub commit -qm s; }; test -d .git/hdcache -o `+fmt.Sprint(given["cache"] == "off")+` = true`); err != nil {
					t.Errorf("fork %d: %v: %s", i, err, out)
				}
				if out, err := inContainer(at, uid, `test -d .git/helmdeck`); (err == nil) != (given["auth"] == "container") {
					t.Errorf("fork %d: the credential helper: %v: %s", i, err, out)
				}
				p.unmount(fork, "1")
			}
		})
	}
}

// TestForksOfOtherShapes: a volume that begins with a checkpoint can't be of another shape than the one that left it, and the
// error says which option it is.
func TestForksOfOtherShapes(t *testing.T) {
	t.Parallel()
	s := remote(t)
	p := start(t, scratch(t))
	p.create("v", map[string]string{"repo": s.URL("sample"), "ref": "main", "warm": "nm", "uid": "7", "auth": "container"})
	write(t, filepath.Join(p.mount("v", "1"), "mine"), "x")
	id, err := p.checkpoint("v")
	if err != nil {
		t.Fatal(err)
	}
	for option, value := range map[string]string{
		"uid": "8", "gid": "8", "warm": "other", "warm_key": "k", "warm_files": "README.md", "warm_exact": "true", "cache": "off", "sparse": "docs", "depth": "1", "filter": "blob:none",
		"lfs": "false", "submodules": "true", "submodule_errors": "warn", "ref": "main", "subject": "other",
	} {
		err := p.tryCreate("f", map[string]string{"repo": s.URL("sample"), "from": id, option: value})
		if err == nil || !strings.Contains(err.Error(), option) && option != "subject" {
			t.Errorf("%s=%s: %v", option, value, err)
		}
	}
	for option, value := range map[string]string{
		"mode": "keep", "refresh": "never", "stale_if_error": "1h", "publish": "never", "auth": "none",
	} {
		name := "f-" + option
		p.create(name, map[string]string{"repo": s.URL("sample"), "from": id, option: value})
		if got := read(t, filepath.Join(p.mount(name, "1"), "mine")); got != "x" {
			t.Errorf("%s=%s: it begins with %q", option, value, got)
		}
		p.unmount(name, "1")
	}
}

// consistent waits until the directories of workspaces are those of the workspaces and checkpoints that the plugin lists.
func (p *process) consistent(t *testing.T) {
	t.Helper()
	wait.For(t, "the directories to be those that the plugin knows", func() error {
		want := make(map[string]bool)
		workspaces, err := p.admin().Workspaces(t.Context(), api.Filter{})
		checkpoints, cpErr := p.admin().Checkpoints(t.Context(), api.Filter{})
		if err := errors.Join(err, cpErr); err != nil {
			t.Fatal(err)
		}
		for _, w := range workspaces {
			want[w.ID] = true
		}
		for _, c := range checkpoints {
			want[c.ID] = true
		}
		have := p.glob("clones/*/*/workspaces/*")
		return wait.Check(len(have) == len(want) && !slices.ContainsFunc(have, func(dir string) bool { return !want[filepath.Base(dir)] }), "%v, want %v", have, want)
	})
}

// TestEvictedMeanwhile: a clone or a checkpoint is evicted while workspaces begin with the checkpoint, while others are made,
// and while a volume goes back. Each succeeds whole or fails, and nothing is left of what failed.
func TestEvictedMeanwhile(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	t.Parallel()
	s := remote(t)
	p := start(t, scratch(t))
	ctx := t.Context()
	for name, evict := range map[string]func(clone, id string) error{
		"evict": func(clone, _ string) error { _, err := p.admin().EvictClone(ctx, clone); return err },
		"fresh": func(clone, _ string) error { _, err := p.admin().FreshClone(ctx, clone, true); return err },
		"prune": func(string, string) error {
			_, err := p.admin().Prune(ctx, api.Prune{All: true, Checkpoints: true, Subject: "prune"})
			return err
		},
		"remove": func(_, id string) error { return p.admin().RemoveCheckpoint(ctx, id) },
	} {
		t.Run(name, func(t *testing.T) {
			done := make(map[string]int)
			for round := range 8 {
				keep := fmt.Sprint(name, "-", round)
				p.create(keep, map[string]string{"repo": s.URL("sample"), "subject": name, "mode": "keep"})
				write(t, filepath.Join(p.mount(keep, "1"), "mine"), "x")
				id, err := p.checkpoint(keep)
				if err != nil {
					t.Fatal(err)
				}
				fork := keep + "-fork"
				p.create(fork, map[string]string{"repo": s.URL("sample"), "subject": name, "from": id})
				p.unmount(keep, "1")
				clones, err := p.admin().Clones(ctx, api.Filter{Subject: name})
				if err != nil || len(clones) != 1 {
					t.Fatalf("clones %+v, %v", clones, err)
				}
				var mounted, drafted, rewound, evicted error
				var at string
				var all sync.WaitGroup
				all.Go(func() { at, mounted = p.Mount(ctx, fork, "1") })
				all.Go(func() {
					switch round % 3 {
					case 0:
						_, drafted = p.checkpoint(keep)
					case 1:
						_, rewound = p.admin().Rewind(ctx, keep, id)
					default:
						if _, rewound = p.Mount(ctx, keep, "2"); rewound == nil {
							p.unmount(keep, "2")
						}
					}
				})
				all.Go(func() { evicted = evict(clones[0].Clone, id) })
				all.Wait()
				for what, err := range map[string]error{"mount": mounted, "draft": drafted, "rewind or mount": rewound, name: evicted} {
					if err == nil {
						done[what]++
					} else {
						t.Logf("%d, %s: %v", round, what, err)
						if strings.Contains(err.Error(), "internal error") {
							t.Errorf("%s: %v", what, err)
						}
					}
				}
				if mounted == nil {
					if got := read(t, filepath.Join(at, "mine")); got != "x" {
						t.Errorf("the fork begins with %q", got)
					}
					testgit.Git(t, at, "fsck")
					p.unmount(fork, "1")
				}
				for _, volume := range []string{fork, keep} {
					if err := p.Remove(ctx, volume); err != nil {
						t.Error(err)
					}
				}
			}
			t.Logf("succeeded: %v", done)
			p.consistent(t)
		})
	}
	for range 3 { // each before those that it stands on
		list, err := p.admin().Checkpoints(ctx, api.Filter{})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range list {
			_ = p.admin().RemoveCheckpoint(ctx, c.ID) // others may stand on it
		}
	}
	p.consistent(t)
	if left := p.glob("clones/*/*/workspaces/*"); len(left) > 0 {
		t.Errorf("left are %q", left)
	}
}

// TestRewindAgainstMount: of a rewind and mounts of the volume at once, the mounts get the state before or after it, and
// never one that ends beneath them.
func TestRewindAgainstMount(t *testing.T) {
	t.Parallel()
	s := remote(t)
	p := start(t, scratch(t))
	p.create("v", map[string]string{"repo": s.URL("sample"), "mode": "keep"})
	dir := p.mount("v", "first")
	write(t, filepath.Join(dir, "mine"), "old")
	id, err := p.checkpoint("v")
	if err != nil {
		t.Fatal(err)
	}
	p.unmount("v", "first")
	// On a busy machine an overlay that a rewind has just unmounted ends later than a Mount waits for.
	mount := func(id string) (at string, err error) {
		for {
			if at, err = p.Mount(t.Context(), "v", id); err == nil || !strings.Contains(err.Error(), "still uses the workspace") {
				return at, err
			}
		}
	}
	back := 0
	for round := range 20 {
		if dir, err = mount("write"); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, "mine"), "new")
		p.unmount("v", "write")
		var rewound error
		dirs, errs := make([]string, 4), make([]error, 4)
		var all sync.WaitGroup
		before, ended := len(p.glob("clones/*/*/workspaces/*")), make(chan struct{})
		all.Go(func() {
			defer close(ended)
			_, rewound = p.admin().Rewind(t.Context(), "v", id)
		})
		for under := round%2 == 0; under; { // until the new workspace is being made
			select {
			case <-ended:
				under = false
			default:
				under = len(p.glob("clones/*/*/workspaces/*")) == before
			}
		}
		for n := range dirs {
			all.Go(func() { dirs[n], errs[n] = mount(fmt.Sprint("m", n)) })
		}
		all.Wait()
		if rewound == nil {
			back++
		} else if !strings.Contains(rewound.Error(), "in use") {
			t.Errorf("rewind: %v", rewound)
		}
		for n, at := range dirs {
			if errs[n] != nil {
				t.Fatalf("round %d, mount %d: %v", round, n, errs[n])
			}
			want := "new"
			if rewound == nil {
				want = "old"
			}
			if at != dirs[0] || read(t, filepath.Join(at, "mine")) != want {
				t.Errorf("round %d, rewind %v: %s has %q, want %q; the first is %s", round, rewound, at, read(t, filepath.Join(at, "mine")), want, dirs[0])
			}
			if err := os.WriteFile(filepath.Join(at, "written"), nil, 0o644); err != nil {
				t.Error(err)
			}
			p.unmount("v", fmt.Sprint("m", n))
		}
	}
	t.Logf("%d of 20 rewinds came first", back)
	p.consistent(t)
}
