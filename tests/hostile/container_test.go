package hostile

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/helmdeck/repos/internal/git/gitserver/hostile"
	"github.com/helmdeck/repos/tests/testgit"
	"github.com/helmdeck/repos/tests/wait"
)

func init() { groups = append(groups, containerAttacks) }

// A container is a shell that runs as root, in the work tree, in its own mount namespace. Like the
// control it gets the bait's addresses: a test checks what the container makes others do to them,
// not what it could do itself. It has engineCapabilities, those of a container of the engine; a
// privileged one has all.
const engineCapabilities = "-all,+chown,+dac_override,+fsetid,+fowner,+mknod,+net_raw,+setgid,+setuid,+setfcap,+setpcap,+net_bind_service,+sys_chroot,+kill,+audit_write"

// runInContainer runs a script in the workspace as a container would, and returns its output.
func (s *scene) runInContainer(tree, script string, privileged bool) (string, error) {
	args := []string{"--mount", "--propagation", "private", "--"}
	if !privileged {
		args = append(args, "setpriv", "--bounding-set", engineCapabilities, "--inh-caps", "-all")
	}
	ctx, cancel := context.WithTimeout(s.Context(), wait.Most(s))
	defer cancel()
	cmd := exec.CommandContext(ctx, "unshare", append(args, "sh", "-uc", script)...)
	cmd.WaitDelay = time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.Dir = tree
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=" + s.dir, "LC_ALL=C", "CANARY=" + s.Canary, "OUTSIDE=" + s.Outside, "BAIT=" + s.URL,
		"GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b"}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// The naive solution that a control attacks: a work tree that is reset in place, with the caches
// linked into it. An attack's script goes between inWorkTree and thenReset.
const (
	inWorkTree = `git clone -q "$REPO" w && mkdir -p caches w/.git/hdcache && cd w && ln -s .git/hdcache .hdcache && ( `
	thenReset  = `
) ; [ -d .git/hdcache/. ] || mkdir .git/hdcache
mkdir -p .hdcache/go-mod; git status --porcelain; git fetch -q origin && git reset -q --hard origin/main && git clean -ffdxq -e .hdcache &&
[ -z "$(git status --porcelain)" ] && [ "$(git rev-parse HEAD)" = "$(git ls-remote "$REPO" refs/heads/main | cut -f1)" ] && git fsck --no-dangling`
)

// containerAttacks returns the attacks of root in a container on the next user of the clone.
func containerAttacks() []attack {
	var all []attack
	for _, c := range dirt {
		a := attack{group: "container", name: c.name, abuses: c.abuses, prepare: c.prepare,
			control: control{script: inWorkTree + c.script + thenReset, effect: c.effect, why: c.why}}
		if c.why != "" {
			a.control.script = ""
		}
		if c.control != "" {
			a.control.script = c.control
		}
		if c.privileged {
			a.abuses += " (privileged)"
		}
		a.run = func(s *scene) { s.attackFromContainer(c.script, c.privileged) }
		all = append(all, a)
	}
	return all
}

// attackFromContainer runs a script in a container, and checks that the next container finds a
// clean checkout.
func (s *scene) attackFromContainer(script string, privileged bool) {
	s.Helper()
	if err := s.create(map[string]string{"repo": server.URL("honest"), "ref": "main", "cache_link": "true"}); err != nil {
		s.Fatal(err)
	}
	tree := s.mustMount("first")
	// The output helps only to debug the script: many of its commands are expected to fail.
	out, err := s.runInContainer(tree, script, privileged)
	s.Logf("%v %.2000s", err, out)
	s.unmount("first")
	next := s.mustMount("second")
	s.wantTree(next)
	s.wantClean(next)
	s.unmount("second")
	s.outcome = "reset"
}

// wantClean checks that a workspace is at the server's commit and has no changes.
func (s *scene) wantClean(tree string) {
	s.Helper()
	if got := testgit.Git(s, tree, "status", "--porcelain"); got != "" {
		s.Errorf("status: %s", got)
	}
	if got, want := testgit.Git(s, tree, "rev-parse", "HEAD"), testgit.Git(s, server.Path("honest"), "rev-parse", "refs/heads/main"); got != want {
		s.Errorf("HEAD is %s, want %s", got, want)
	}
	if got := testgit.Git(s, tree, "fsck", "--full", "--no-dangling"); got != "" {
		s.Errorf("fsck: %s", got)
	}
	target, err := os.Readlink(filepath.Join(tree, ".hdcache"))
	if err != nil || target != ".git/hdcache" {
		s.Errorf(".hdcache is %q, %v", target, err)
	}
}

// setting returns a script that sets a variable of the workspace's repository.
func setting(key, value string) string { return `git config ` + key + ` "` + value + `"` }

// dirt are the attacks of containers. The script runs in the container and, in a plain clone, as
// the control.
var dirt = []struct {
	name, abuses string
	script       string
	effect       hostile.Effect
	privileged   bool
	control      string // the control's script; empty: script in a work tree that is reset in place
	why          string // the reason why the attack has no control
	prepare      func(t *testing.T, tr *trap)
}{
	{name: "config-fsmonitor", abuses: "a file system monitor in .git/config", script: setting("core.fsmonitor", "touch $CANARY; false"), effect: hostile.Runs},
	{name: "config-hooks-path", abuses: "a directory of hooks in .git/config", script: `mkdir evil && printf '#!/bin/sh\ntouch %s\n' "$CANARY" >evil/post-checkout &&
		cp evil/post-checkout evil/reference-transaction && cp evil/post-checkout evil/post-index-change && chmod +x evil/*; git config core.hooksPath "$PWD/evil"`, effect: hostile.Runs},
	{name: "config-filter", abuses: "a filter in .git/config, with its attributes in .git/info", script: `git config filter.x.clean "touch $CANARY; cat"; git config filter.x.smudge "touch $CANARY; cat"
		echo '* filter=x' >.git/info/attributes; for f in $(git ls-files | head -n 3); do echo x >>"$f"; done`, effect: hostile.Runs},
	{name: "config-filter-process", abuses: "a filter process in .git/config, with its attributes in the tree", script: `git config filter.x.process "touch $CANARY"; git config filter.x.required true
		echo '* filter=x' >.gitattributes; for f in $(git ls-files | head -n 3); do echo x >>"$f"; done`, effect: hostile.Runs},
	{name: "config-ssh-command", abuses: "an ssh program in .git/config", script: setting("core.sshCommand", "touch $CANARY;") + `; git remote set-url origin ssh://127.0.0.1/x`, effect: hostile.Runs},
	{name: "config-remote-ext", abuses: "a remote that is a command", script: setting("protocol.ext.allow", "always") + `; git remote set-url origin "ext::touch $CANARY"`, effect: hostile.Runs},
	{name: "config-instead-of", abuses: "a rewrite of all URLs", script: setting("url.$BAIT/.insteadOf", "http://"), effect: hostile.Asks},
	{name: "config-proxy", abuses: "a proxy in .git/config", script: setting("http.proxy", "$BAIT"), effect: hostile.Asks},
	{name: "config-remote", abuses: "another remote on loopback", script: `git remote set-url origin "$BAIT/x"`, effect: hostile.Asks},
	{name: "config-credential", abuses: "a credential helper in .git/config", script: `git config credential.helper "!touch $CANARY;:"; git remote set-url origin "${REPO:-x}"`, control: `
		git init -q w && cd w && git config credential.helper "!touch $CANARY;:" && printf 'protocol=http\nhost=x\n\n' | git credential fill; true`, effect: hostile.Runs},
	{name: "config-worktree", abuses: "a work tree elsewhere in .git/config: a reset writes there, a clean empties it", script: setting("core.worktree", "$OUTSIDE"), effect: hostile.Writes},
	{name: "config-include", abuses: "settings included from the tree", script: `printf '[core]\n\tfsmonitor = "touch %s; false"\n' "$CANARY" >settings; git config include.path ../settings`, effect: hostile.Runs},
	{name: "config-worktree-settings", abuses: "settings of the work tree, .git/config.worktree", script: setting("extensions.worktreeConfig", "true") +
		`; printf '[core]\n\tfsmonitor = "touch %s; false"\n' "$CANARY" >.git/config.worktree`, effect: hostile.Runs},
	{name: "config-template", abuses: "an alias in place of a command", script: setting("alias.status", "!touch $CANARY")},
	{name: "config-broken", abuses: "a .git/config that cannot be parsed", script: `echo '[[[' >.git/config`, effect: hostile.Fails},
	{name: "config-link", abuses: "a .git/config that is a link to outside", script: `ln -sf "$OUTSIDE/secret" .git/config`, effect: hostile.Reads,
		control: inWorkTree + `ln -sf "$OUTSIDE/secret" .git/config ); cat .git/config`},
	{name: "config-huge", abuses: "a sparse .git/config of 8 GiB", script: `truncate -s 8G .git/config`, why: "no control: it only takes time"},
	{name: "hooks", abuses: "every hook there is", script: `mkdir -p .git/hooks; for hook in post-checkout post-merge post-index-change reference-transaction pre-auto-gc post-rewrite fsmonitor-watchman pre-commit; do
		printf '#!/bin/sh\ntouch %s\n' "$CANARY" >.git/hooks/$hook; chmod +x .git/hooks/$hook; done`, effect: hostile.Runs},
	{name: "gitfile", abuses: "a .git that is a file and names another repository in the tree", script: `git clone -q --bare . evil 2>/dev/null || cp -r .git evil; git -C evil config core.bare false
		git -C evil config core.fsmonitor "touch $CANARY; false"; mv .git old || rm -rf .git/* ; echo 'gitdir: evil' >.git`, effect: hostile.Runs},
	{name: "git-link", abuses: "a .git that is a link to outside", script: `mv .git old; rm -rf .git; ln -s "$OUTSIDE" .git`, effect: hostile.Writes,
		control: inWorkTree + `true ); cp -r .git/. "$OUTSIDE"; rm -rf .git; ln -s "$OUTSIDE" .git; git reset -q --hard`},
	{name: "git-gone", abuses: "no .git at all", script: `mv .git gone; rm -rf gone/* gone`, effect: hostile.Fails},
	{name: "commondir", abuses: "a common directory elsewhere, with its own settings", script: `mkdir -p evil/refs evil/objects; printf '[core]\n\trepositoryformatversion = 0\n\tfsmonitor = "touch %s; false"\n' "$CANARY" >evil/config
		echo "$PWD/evil" >.git/commondir`, effect: hostile.Runs},
	{name: "alternates", abuses: "alternates that lead to another repository, with a ref to its commit", script: `echo "$OUTSIDE/repo.git/objects" >.git/objects/info/alternates
		git update-ref refs/heads/main "$(git -C "$OUTSIDE/repo.git" rev-parse main 2>/dev/null || cat "$OUTSIDE/repo.git/refs/heads/main")"`, effect: hostile.Reads, prepare: temptingRepository,
		control: inWorkTree + `echo "$OUTSIDE/repo.git/objects" >.git/objects/info/alternates; git update-ref refs/heads/main "$(git -C "$OUTSIDE/repo.git" rev-parse main)" ); git reset -q --hard; cat secret`},
	{name: "alternates-own", abuses: "alternates that lead to themselves", script: `echo "$PWD/.git/objects" >.git/objects/info/alternates; echo ../../objects >>.git/objects/info/alternates`},
	{name: "objects-link", abuses: "an object directory that is a link to outside: what is fetched is written there", script: `mv .git/objects .git/old; ln -s "$OUTSIDE" .git/objects`, effect: hostile.Writes,
		control: inWorkTree + `true ); cp -r .git/objects/. "$OUTSIDE"; rm -rf .git/objects; ln -s "$OUTSIDE" .git/objects; git config user.name a; git config user.email a@b; touch new; git add new`},
	{name: "fetch-head-link", abuses: "a FETCH_HEAD that is a link to outside", script: `ln -sf "$OUTSIDE/new" .git/FETCH_HEAD`, effect: hostile.Writes},
	{name: "reflog-link", abuses: "a reflog that is a link to outside", script: `mkdir -p .git/logs; ln -sf "$OUTSIDE/new" .git/logs/HEAD`, effect: hostile.Writes,
		control: inWorkTree + `ln -sf "$OUTSIDE/new" .git/logs/HEAD ); git reset -q --hard HEAD~1`},
	{name: "index-link", abuses: "an index that is a link to outside", script: `ln -sf "$OUTSIDE/secret" .git/index`, effect: hostile.Fails},
	{name: "refs-link", abuses: "a directory of refs that is a link to outside", script: `rm -rf .git/refs/remotes; ln -s "$OUTSIDE" .git/refs/remotes`, effect: hostile.Writes,
		control: inWorkTree + `rm -rf .git/refs/remotes; ln -s "$OUTSIDE" .git/refs/remotes ); git update-ref refs/remotes/origin/new HEAD`},
	{name: "head-path", abuses: "a HEAD that is a path out of the repository", script: `echo 'ref: refs/heads/../../../../../outside' >.git/HEAD`, effect: hostile.Fails},
	{name: "branch-moved", abuses: "a branch at another commit, and origin/main too", script: `git update-ref refs/heads/main HEAD~1; git update-ref refs/remotes/origin/main HEAD~1`},
	{name: "replace", abuses: "a replacement for the commit that is checked out", script: `git replace HEAD HEAD~1`, effect: hostile.Fails,
		control: inWorkTree + `git replace HEAD HEAD~1 ); git reset -q --hard origin/main; git clean -ffdxq; [ "$(git rev-parse 'HEAD^{tree}')" = "$(git --no-replace-objects rev-parse 'HEAD^{tree}')" ]`},
	{name: "locks", abuses: "locks that nobody removes", script: `touch .git/index.lock .git/HEAD.lock .git/config.lock .git/packed-refs.lock .git/shallow.lock`, effect: hostile.Fails},
	{name: "skip-worktree", abuses: "files that git is told not to look at", script: `f=$(git ls-files | head -n 1); git update-index --skip-worktree "$f"; echo evil >"$f"`, effect: hostile.Fails,
		control: inWorkTree + `f=$(git ls-files | head -n 1); git update-index --skip-worktree "$f"; echo evil >"$f" ); git checkout -q -f; [ "$(cat "$(git ls-files | head -n 1)")" != evil ]`},
	{name: "nested", abuses: "a nested repository, which clean spares", script: `git init -q nested; touch nested/x; git -C nested add x; git -C nested commit -qm x`, effect: hostile.Fails,
		control: inWorkTree + `git init -q nested && touch nested/x && git -C nested add x && git -C nested -c user.name=a -c user.email=a@b commit -qm x ); git reset -q --hard origin/main; git clean -fdxq; [ ! -e nested ]`},
	{name: "excluded", abuses: "dirt that .git/info/exclude hides", script: `echo '*' >.git/info/exclude; echo evil >evil`, effect: hostile.Fails,
		control: inWorkTree + `echo '*' >.git/info/exclude; echo evil >evil ); git reset -q --hard origin/main; git clean -ffdq; [ ! -e evil ]`},
	{name: "pack-overwritten", abuses: "packs that are shared, overwritten in place", script: `chmod u+w .git/objects/pack/*; for p in .git/objects/pack/*.pack; do echo evil | dd of="$p" bs=1 seek=20 conv=notrunc 2>/dev/null; done`, effect: hostile.Fails,
		control: sharedPacks + `chmod u+w .git/objects/pack/*; for p in .git/objects/pack/*.pack; do echo evil | dd of="$p" bs=1 seek=20 conv=notrunc 2>/dev/null; done ); git --git-dir=cache fsck`},
	{name: "pack-cut", abuses: "packs that are shared, cut to nothing", script: `chmod u+w .git/objects/pack/*; for p in .git/objects/pack/*; do : >"$p"; done`, effect: hostile.Fails,
		control: sharedPacks + `for p in .git/objects/pack/*; do : >"$p"; done ); git --git-dir=cache fsck`},
	{name: "pack-owner", abuses: "packs that are shared, with another owner and mode 0", script: `chown 1234 .git/objects/pack/*; chmod 0 .git/objects/pack/*`, effect: hostile.Fails,
		control: sharedPacks + `chown 1234 .git/objects/pack/* && chmod 0 .git/objects/pack/* ); [ "$(stat -c %u cache/objects/pack/*.pack)" = 0 ]`},
	{name: "pack-linked", abuses: "packs that are shared, changed through another hard link", script: `ln .git/objects/pack/*.pack mine; chmod u+w mine; echo evil | dd of=mine bs=1 seek=20 conv=notrunc`, effect: hostile.Fails,
		control: sharedPacks + `ln .git/objects/pack/*.pack mine; echo evil | dd of=mine bs=1 seek=20 conv=notrunc 2>/dev/null ); git --git-dir=cache fsck`},
	{name: "object-poisoned", abuses: "a false object under the ID of a real one", script: `id=$(git rev-parse HEAD:"$(git ls-files | head -n 1)"); d=.git/objects/$(echo $id | cut -c1-2); mkdir -p $d; echo evil >$d/$(echo $id | cut -c3-)`, effect: hostile.Fails},
	{name: "tracked-through-layers", abuses: "every file of the lower tree rewritten, renamed and removed", script: `find . -type f -not -path './.git/*' -exec sh -c 'echo evil >"$1"; mv "$1" "$1.moved"' sh {} \;; rm -rf -- *`},
	{name: "device", abuses: "a device in the workspace, opened", script: `mknod zero c 1 5; head -c 1 zero && touch "$CANARY"`, effect: hostile.Runs},
	{name: "device-cache", abuses: "a device in the cache, opened", script: `mknod .hdcache/zero c 1 5; head -c 1 .hdcache/zero && touch "$CANARY"`, effect: hostile.Runs},
	{name: "setuid", abuses: "a program with the setuid bit in the workspace", script: `cp /usr/bin/id s; chmod 4755 s; [ "$(setpriv --reuid 65534 --clear-groups ./s -u)" = 0 ] && touch "$CANARY"`, effect: hostile.Runs},
	{name: "setuid-cache", abuses: "a program with the setuid bit in the cache, which is published", script: `cp /usr/bin/id .hdcache/s; chmod 4755 .hdcache/s; [ "$(setpriv --reuid 65534 --clear-groups .hdcache/s -u)" = 0 ] && touch "$CANARY"`, effect: hostile.Runs},
	{name: "fifos", abuses: "FIFOs in place of tracked files, settings and the index", script: `f=$(git ls-files | head -n 1); rm -f "$f" .git/config .git/index .git/HEAD; mkfifo "$f" .git/config .git/index .git/HEAD`, effect: hostile.Fails},
	{name: "fifo-cache", abuses: "FIFOs in place of the files that the plugin creates in the cache", script: `cd .hdcache/; rm -rf env go-mod; mkfifo env go-mod`, why: "no control: it only makes others wait"},
	{name: "sockets", abuses: "sockets in place of files", script: `timeout 1 busybox nc -lU s; true`, why: "no control: a socket is a file like others"},
	{name: "deep", abuses: "10,000 levels of directories", script: deepScript, effect: hostile.Fails,
		control: inWorkTree + deepScript + ` ); git clean -ffdxq`},
	{name: "deep-cache", abuses: "10,000 levels of directories in the cache", script: `cd .hdcache/; ` + deepScript, why: "no control: the cache stays"},
	{name: "closed", abuses: "directories that nobody may enter", script: `mkdir -p a/b/c && touch a/b/c/d && chmod 0 a/b/c a/b a; chmod 0 . .git`},
	{name: "many", abuses: "100,000 empty files", script: `mkdir many; cd many; seq 1 100000 | xargs -n 5000 touch`},
	{name: "many-links", abuses: "60,000 hard links to one file", script: `mkdir -p many/0; cd many/0; touch 1; i=1; while [ $i -lt 500 ]; do i=$((i+1)); ln 1 $i; done; cd ..; for i in $(seq 119); do cp -al 0 $i; done`},
	{name: "hard-links", abuses: "hard links between tracked files and .git", script: `f=$(git ls-files | head -n 1); ln -f "$f" .git/HEAD; ln -f "$f" .git/config; ln -f .git/packed-refs other`, effect: hostile.Fails},
	{name: "sparse-file", abuses: "a file of 10 TB", script: `truncate -s 10T big; truncate -s 10T .git/objects/pack/tmp_pack_x`},
	{name: "names", abuses: "names with line breaks, control characters and invalid UTF-8", script: `touch "$(printf 'a\nb')" "$(printf '\033[2J')" "$(printf '\377\376')" -- -rf ' ' '*'; mkdir "$(printf '\n')" "$(seq 1 60 | tr -d '\n' | cut -c1-255)"`},
	{name: "immutable", abuses: "files and directories that not even root can change", script: `mkdir i; echo x >i/f; chattr +i i/f i; echo x >a; chattr +a a`, privileged: true, effect: hostile.Fails},
	{name: "whiteout", abuses: "device nodes that an overlay takes for deletions", script: `mknod wh c 0 0; cd .hdcache/ && mknod go-build/wh c 0 0 && rm -rf go-mod && mknod go-mod c 0 0`, why: "no control: it concerns only overlays"},
	{name: "mounts", abuses: "mounts over parts of the workspace", script: `mkdir m; mount -t tmpfs none m; mount --bind "$OUTSIDE" .git/hooks; mount --bind "$OUTSIDE" .hdcache/go-mod`, privileged: true, why: "no control: the mounts end with the namespace"},
	{name: "cache-unmounted", abuses: "the cache unmounted, and a link to outside in its place", script: `umount .git/hdcache && rmdir .git/hdcache && ln -s "$OUTSIDE" .git/hdcache`, privileged: true, effect: hostile.Writes,
		control: inWorkTree + `rmdir .git/hdcache && ln -s "$OUTSIDE" .git/hdcache` + thenReset},
	{name: "cache-moved", abuses: "the directory of the cache moved away with .git", script: `mkdir new; mv .git new/; mkdir .git; ln -s "$OUTSIDE" .git/hdcache`, effect: hostile.Writes,
		control: inWorkTree + `mv .git new; mkdir .git; ln -s "$OUTSIDE" .git/hdcache` + thenReset},
	{name: "hdcache-link", abuses: "an .hdcache that is a link to outside", script: `rm .hdcache; ln -s "$OUTSIDE" .hdcache`, effect: hostile.Writes},
	{name: "hdcache-directory", abuses: "an .hdcache that is a directory with another env", script: `rm .hdcache; mkdir .hdcache; echo "touch $CANARY" >.hdcache/env`, effect: hostile.Runs,
		control: inWorkTree + `rm .hdcache; mkdir .hdcache; echo "touch $CANARY" >.hdcache/env ); . ./.hdcache/env`},
	{name: "cache-link", abuses: "directories of the cache that are links to outside: the plugin creates them again", script: `cd .hdcache/; rm -rf *; for d in go-mod npm pip; do ln -s "$OUTSIDE/$d" $d; done; ln -s "$OUTSIDE/new" env`, effect: hostile.Writes,
		control: inWorkTree + `cd .git/hdcache; rm -rf *; ln -s "$OUTSIDE/new" env ); echo x >.git/hdcache/env`},
	{name: "cache-up", abuses: "links out of the cache with ..", script: `cd .hdcache/; rm -rf npm env; ln -s ../../../../../../../../../../../../etc npm; ln -s ../../../manifest.json env`, why: "no control: the same as an absolute link"},
	{name: "cache-owner", abuses: "a cache with another owner and mode 0", script: `chown -R 1234 .hdcache/; chmod 0 .hdcache/`, why: "no control: the cache stays"},
	{name: "cache-full-names", abuses: "files in place of all directories of the cache", script: `cd .hdcache/; rm -rf *; for d in go-mod go-build npm pnpm yarn pip uv cargo maven gradle; do echo evil >$d; done; mkdir env`, why: "no control: the cache stays"},
	{name: "manifest", abuses: "false facts in .git/helmdeck.json", script: `echo '{"subject":"other","repo":"'"$BAIT"'","commit":"x"}' >.git/helmdeck.json; echo '{}' >manifest.json`, why: "no control: plain git has no such file"},
	{name: "root-closed", abuses: "a workspace whose top directory has another owner and mode 0", script: `chown 1234:1234 . ; chmod 0 .; touch -d 2100-01-01 .`},
	{name: "root-file", abuses: "an empty workspace", script: `find . -mindepth 1 -delete; umount .git/hdcache; find . -mindepth 1 -delete`, effect: hostile.Fails},
}

// sharedPacks makes a local clone, which shares its packs with the cache by hard links, and enters
// it.
const sharedPacks = `git clone -q --bare "$REPO" cache && git clone -q --local cache w && ( cd w && `

// deepScript makes 11,400 levels of directories, in parts that are short enough for a path.
const deepScript = `part=$(printf 'd/%.0s' $(seq 1900)); mkdir t; for i in 1 2 3 4 5 6; do mkdir -p "n/$part" && mv t "n/${part}t" && mv n t; done`
