package hostile

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/docker/go-plugins-helpers/volume"
	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/git/gitserver/hostile"
	"github.com/helmdeck/repos/tests/wait"
)

func init() {
	groups = append(groups, checkpointAttacks)
	order["checkpoint"] = 11
}

// The naive checkpoint: a copy of the work tree, into which the fork's own files are written then.
const (
	thenCopy   = ` ); cp -rL . ../copy; cat ../copy/* 2>/dev/null | head -c 1000000`
	thenFork   = ` ); cp -a . ../copy; rm -f ../copy/.git/*.lock; echo x >../copy/.git/helmdeck.json; echo x >../copy/.git/hdcache/new`
	onlyTakes  = "no control: it only takes time and space"
	ofOverlays = "no control: it concerns only overlays"
)

// checkpointAttacks returns the attacks of a container on its checkpoint, and on what begins with it.
func checkpointAttacks() []attack {
	var all []attack
	for _, c := range copies {
		script := c.script
		if c.during { // in a control nothing is copied meanwhile
			script = "touch stop; " + script
		}
		a := attack{group: "checkpoint", name: c.name, abuses: "copied: " + c.abuses, control: control{script: inWorkTree + script + cmp.Or(c.control, thenCopy), effect: c.effect, why: c.why}}
		if c.why != "" {
			a.control.script = ""
		}
		a.run = func(s *scene) { s.attackCheckpoint(c) }
		all = append(all, a)
	}
	return all
}

// copyAttack is an attack on a checkpoint.
type copyAttack struct {
	name, abuses string
	script       string
	effect       hostile.Effect
	control      string // what the control does in place of thenCopy
	why          string // the reason why the attack has no control
	privileged   bool
	// during is set if the script runs while checkpoints are made, until there is a file "stop". What these have is not
	// compared.
	during bool
	// do adds to the script what no shell can do.
	do func(tree string) error
	// then runs between the two passes.
	then string
	// differs lists the paths that may differ in the fork; with "*" nothing is compared.
	differs []string
	// inFork must succeed in a container that has the fork.
	inFork string
	// refused is part of the reason why no checkpoint is made.
	refused string
}

// attackCheckpoint makes checkpoints of a workspace in which a script runs, and begins others with them. Each has what the
// workspace had, or is refused for a reason, and the plugin goes on.
func (s *scene) attackCheckpoint(c copyAttack) {
	s.Helper()
	if err := s.create(map[string]string{"repo": server.URL("honest"), "ref": "main", "cache_link": "true"}); err != nil {
		s.Fatal(err)
	}
	tree := s.mustMount("first")
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		out, err := s.runInContainer(tree, "echo x >mine\n"+c.script, c.privileged)
		s.Logf("%v %.2000s", err, out)
	}()
	if !c.during {
		<-ended
	}
	if c.do != nil {
		if err := c.do(tree); err != nil {
			s.Fatal(err)
		}
	}
	rounds := 1
	if c.during {
		rounds = 5
	}
	s.outcome = "copied"
	for range rounds {
		id, err := s.checkpoint(s.workspace(tree), func() error {
			if c.then == "" {
				return nil
			}
			out, err := s.runInContainer(tree, c.then, c.privileged)
			s.Logf("then: %v %.2000s", err, out)
			return err
		})
		if c.refused != "" {
			if err == nil || !strings.Contains(err.Error(), c.refused) {
				s.Errorf("the checkpoint: %v, want an error with %q", err, c.refused)
			}
			s.outcome = "refused"
			continue
		}
		if err != nil {
			s.Errorf("the checkpoint: %v", err)
			continue
		}
		s.fork(id, tree, c)
	}
	if c.during {
		if out, err := s.runInContainer(tree, "touch stop", false); err != nil {
			s.Errorf("stop: %v: %s", err, out)
		}
		<-ended
	}
}

// checkpoint makes a checkpoint of a workspace, calls between before the second pass, and returns its ID.
func (s *scene) checkpoint(id string, between func() error) (string, error) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), wait.Most(s))
	defer cancel()
	d, err := s.plugin.Admin.Draft(ctx, id, api.Note{Message: "x"})
	if err == nil {
		s.Logf("%+v", d)
		err = between()
	}
	if err == nil {
		_, err = s.plugin.Admin.CatchUp(ctx, d.ID)
	}
	if err == nil {
		_, err = s.plugin.Admin.Keep(ctx, d.ID)
	}
	if err != nil {
		fmt.Fprintln(&s.said, err)
	}
	return d.ID, err
}

// fork mounts a volume that begins with a checkpoint, compares it with the workspace that it is of, and ends it.
func (s *scene) fork(id, tree string, c copyAttack) {
	s.Helper()
	of := &scene{T: s.T, attack: s.attack, trap: s.trap, plugin: s.plugin, volume: s.volume + "-fork"}
	defer func() { s.said.WriteString(of.said.String()) }()
	if err := of.create(map[string]string{"repo": server.URL("honest"), "from": id, "subject": s.volume}); err != nil {
		s.Errorf("begin with the checkpoint: %v", err)
		return
	}
	if at, err := of.mount("fork"); err != nil {
		s.Errorf("mount the fork: %v", err)
	} else {
		if path := s.findSecret(at); path != "" {
			s.Errorf("the fork has the secret from outside: %s", path)
		}
		if !c.during && !slices.Contains(c.differs, "*") {
			s.wantSame(tree, at, c.differs)
		}
		if c.inFork != "" {
			if out, err := s.runInContainer(at, c.inFork, false); err != nil {
				s.Errorf("in the fork: %v: %s", err, out)
			}
		}
		of.unmount("fork")
	}
	if _, err := of.call("VolumeDriver.Remove", volume.RemoveRequest{Name: of.volume}); err != nil {
		s.Errorf("remove the fork: %v", err)
	}
}

// wantSame compares all files of two workspaces, but those that the plugin writes and those that differ.
func (s *scene) wantSame(tree, fork string, differs []string) {
	s.Helper()
	want, got := s.filesOf(tree), s.filesOf(fork)
	for _, name := range append(differs, ".git/helmdeck.json") {
		delete(want, name)
		delete(got, name)
	}
	bad := 0
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if got[name] != want[name] && bad < 5 {
			s.Errorf("%q in the fork is %.300q, want %.300q", name, got[name], want[name])
			bad++
		}
		delete(got, name)
	}
	for name := range got {
		s.Errorf("the fork has %q too: %.300q", name, got[name])
		break
	}
}

// filesOf describes what is in a directory, without the cache.
func (s *scene) filesOf(dir string) map[string]string {
	s.Helper()
	root, err := os.OpenRoot(dir)
	if err != nil {
		s.Fatal(err)
	}
	defer root.Close()
	all := make(map[string]string)
	err = fs.WalkDir(root.FS(), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if path == ".git/hdcache" && d.IsDir() {
			return fs.SkipDir
		}
		info, err := root.Lstat(path)
		if err != nil {
			return err
		}
		st := info.Sys().(*syscall.Stat_t)
		text := fmt.Sprintf("%v %d:%d, device %x", info.Mode(), st.Uid, st.Gid, st.Rdev)
		switch {
		case info.Mode().Type() == fs.ModeSymlink:
			target, err := root.Readlink(path)
			all[path] = text + " to " + target
			return err
		case info.Mode().IsRegular():
			f, err := root.Open(path)
			if err != nil {
				return err
			}
			defer f.Close()
			var data bytes.Buffer
			if info.Size() <= 1<<20 {
				if _, err := data.ReadFrom(f); err != nil {
					return err
				}
			}
			text += fmt.Sprintf(", %d bytes at %v, attributes %q: %x", info.Size(), info.ModTime(), attributesOf(int(f.Fd())), data.Bytes())
		}
		all[path] = text
		return nil
	})
	if err != nil {
		s.Error(err)
	}
	return all
}

// attributesOf returns the extended attributes of a file with their values.
func attributesOf(fd int) (all []string) {
	names, value := make([]byte, 64<<10), make([]byte, 64<<10)
	n, _ := unix.Flistxattr(fd, names)
	for name := range strings.SplitSeq(string(names[:max(n, 0)]), "\x00") {
		if n, err := unix.Fgetxattr(fd, name, value); err == nil {
			all = append(all, fmt.Sprintf("%s=%x", name, value[:n]))
		}
	}
	slices.Sort(all)
	return all
}

// forged gives directories and files all attributes of overlays that a container may set, and some that only a
// privileged one may.
func forged(tree string) error {
	dir := filepath.Join(tree, "forged")
	if err := errors.Join(os.Mkdir(dir, 0o755), os.WriteFile(filepath.Join(dir, "file"), []byte("x"), 0o644), os.Mkdir(filepath.Join(dir, "sub"), 0o755)); err != nil {
		return err
	}
	for name, value := range map[string]string{"opaque": "y", "whiteout": "y", "redirect": "/..", "metacopy": "", "origin": "x", "impure": "y", "nlink": "U+99", "upper": "x", "protattr": "ia"} {
		for _, path := range []string{dir, filepath.Join(dir, "file"), filepath.Join(dir, "sub")} {
			if err := unix.Setxattr(path, "user.overlay."+name, []byte(value), 0); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			_ = unix.Setxattr(path, "trusted.overlay."+name, []byte(value), 0) // older kernels refuse it
		}
	}
	return nil
}

// heavy gives files as many attributes as the filesystem takes.
func heavy(tree string) error {
	for n := range 200 {
		path := filepath.Join(tree, fmt.Sprint("heavy-", n))
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			return err
		}
		if err := unix.Setxattr(path, "user.x", bytes.Repeat([]byte{byte(n)}, 3500), 0); err != nil {
			return err
		}
		for i := 0; unix.Setxattr(path, fmt.Sprint("user.", i), []byte("x"), 0) == nil; i++ {
		}
	}
	return nil
}

// sockets listens at a name and ends, which leaves the socket.
func sockets(tree string) error {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(tree, "s"), Net: "unix"})
	if err != nil {
		return err
	}
	l.SetUnlinkOnClose(false)
	return l.Close()
}

// copies are the attacks on checkpoints.
var copies = []copyAttack{
	{name: "link", abuses: "absolute links to outside in place of files and directories", script: `for f in $(git ls-files | head -n 3); do ln -sf "$OUTSIDE/secret" "$f"; done
		ln -s "$OUTSIDE/secret" new; d=$(git ls-files | grep / | head -n 1 | cut -d/ -f1); mv "$d" moved; ln -s "$OUTSIDE" "$d"`, effect: hostile.Reads},
	{name: "link-up", abuses: "links to outside with ..", script: `ln -s "../../../../../../../../../../../../..$OUTSIDE/secret" new; ln -s "../../../../../../../../../../../../..$OUTSIDE" d`, effect: hostile.Reads},
	{name: "link-loop", abuses: "links in circles", script: `ln -s loop loop; ln -s a b; ln -s b a; mkdir d; ln -s ../d d/d; ln -s . d/e`, effect: hostile.Fails, control: ` ); cp -rL . ../copy`},
	{name: "swap", abuses: "a directory and a link to outside that change places meanwhile", script: `mkdir -p a b; echo x >a/secret; ln -s "$OUTSIDE" link; i=0
		while [ ! -e stop ] && [ $i -lt 20000 ]; do i=$((i+1)); mv -T a b/a; mv -T link a; mv -T a link; mv -T b/a a; done`, effect: hostile.Reads, during: true,
		control: ` ); mv -T a b/a; mv -T link a; cp -r a/. ../copy; cat ../copy/secret`},
	{name: "moving", abuses: "directories that are moved up and down meanwhile, with all that is in them", script: `mkdir -p a/b/c/d/e/f/g up; for i in $(seq 100); do echo $i >a/b/c/d/$i; done; i=0
		while [ ! -e stop ] && [ $i -lt 20000 ]; do i=$((i+1)); mv a/b/c/d up/d; mv up/d d; rm -f d/x; echo $i >d/x; mkdir d/$i.d; mv d a/b/c/d; done`, during: true, why: "no control: a copy has what it finds"},
	{name: "growing", abuses: "files that grow, shrink and are replaced meanwhile", script: `i=0; while [ ! -e stop ] && [ $i -lt 100000 ]; do i=$((i+1)); head -c 100000 /dev/zero >>grows; [ $((i%100)) = 0 ] && : >grows; echo $i >t; mv t replaced
		rm -f kind; case $((i%3)) in 0) mkfifo kind;; 1) echo x >kind;; 2) ln -s "$OUTSIDE/secret" kind;; esac; done`, during: true, effect: hostile.Reads, control: ` ); rm -f kind; ln -s "$OUTSIDE/secret" kind; cat kind`},
	{name: "devices", abuses: "devices without an end in place of files, and a disk", script: `mknod zero c 1 5; mknod disk b 7 0; f=$(git ls-files | head -n 1); rm "$f"; mknod "$f" c 1 5`, effect: hostile.Fails, control: ` ); timeout 2 cp -r --copy-contents . ../copy`},
	{name: "fifos", abuses: "FIFOs in place of files, of the index and of refs", script: `f=$(git ls-files | head -n 1); rm -f "$f" .git/index .git/HEAD .git/packed-refs; mkfifo new "$f" .git/index .git/HEAD .git/packed-refs`, effect: hostile.Fails,
		control: ` ); timeout 2 cp -r --copy-contents . ../copy`},
	{name: "sockets", abuses: "a socket that nobody listens at", do: sockets, why: "no control: a socket is a file like others"},
	{name: "sparse", abuses: "files of 10 TB, of which one has a thousand pieces of data", script: `truncate -s 10T new "$(git ls-files | head -n 1)" pieces; for i in $(seq 1000); do echo x | dd of=pieces bs=1 seek=$((i*1000000000)) conv=notrunc 2>/dev/null; done`,
		effect: hostile.Fails, control: ` ); timeout 2 cp --sparse=never new ../copy`, inFork: `[ $(stat -c %s new) = 10995116277760 ] && [ $(stat -c %b new) -lt 100 ] && [ $(stat -c %b pieces) -lt 20000 ]`},
	{name: "cache-linked", abuses: "hard links into the cache, whose files are of others too", script: `mkdir -p .git/hdcache/npm/d; echo x >.git/hdcache/npm/d/x; ln .git/hdcache/npm/d/x mine2; echo changed >>mine2`,
		inFork: `[ "$(cat mine2)" = "$(printf 'x\nchanged')" ] && echo more >>mine2 && [ ! -e .git/hdcache/npm/d/x -o "$(cat .git/hdcache/npm/d/x)" != "$(cat mine2)" ]`, why: "no control: a copy has no cache"},
	{name: "linked", abuses: "60,000 hard links to one file, and links between .git and the tree", script: `mkdir -p many/0; cd many/0; touch 1; i=1; while [ $i -lt 500 ]; do i=$((i+1)); ln 1 $i; done; cd ..; for i in $(seq 119); do cp -al 0 $i; done
		cd ..; ln .git/config config; ln -f mine .git/description`, why: onlyTakes},
	{name: "whiteouts", abuses: "device nodes that an overlay takes for deletions", script: `mknod wh c 0 0; f=$(git ls-files | head -n 1); rm -f "$f"; mknod "$f" c 0 0; mkdir d; mknod d/x c 0 0; true`, why: ofOverlays},
	{name: "whiteouts-privileged", abuses: "device nodes that an overlay takes for deletions (privileged)", privileged: true, script: `mknod wh c 0 0; mkdir d; mknod d/x c 0 0; true`, why: ofOverlays},
	{name: "opaque", abuses: "directories that are replaced, within directories that are replaced", script: `for d in $(git ls-files | grep / | cut -d/ -f1 | sort -u); do cp -r "$d" x; rm -rf "$d"; mkdir "$d"; cp -r x "$d/x"; rm -rf x "$d/x"/*; echo new >"$d/new"; done`, why: ofOverlays},
	{name: "forged", abuses: "attributes of overlays: opaque, whiteout, redirect, metacopy, origin", do: forged, why: ofOverlays},
	{name: "attributes", abuses: "200 files with all the attributes that fit", do: heavy, why: onlyTakes},
	{name: "many", abuses: "510,000 names", script: `mkdir many; cd many; seq 1 510000 | xargs -n 5000 touch`, refused: "at most 500000 files and directories are allowed", why: onlyTakes},
	{name: "deep", abuses: "11,400 levels of directories", script: deepScript, refused: "levels of directories", why: onlyTakes},
	{name: "deep-allowed", abuses: "200 levels of directories with long names", script: `n=$(printf 'n%.0s' $(seq 15)); mkdir -p "$(printf "$n/%.0s" $(seq 199))"`, why: onlyTakes},
	{name: "setuid", abuses: "a program with the setuid bit, and one that is another's", script: `cp /usr/bin/id s; chown 1234:2345 s; chmod 6755 s; cp /usr/bin/id r; chmod 4755 r`,
		inFork: `setpriv --reuid 65534 --clear-groups ./r -u | grep -qx 65534`, effect: hostile.Fails, control: ` ); cp -a r ../copy; [ "$(setpriv --reuid 65534 --clear-groups ../copy -u)" = 65534 ]`},
	{name: "replaced", abuses: "files and directories that are FIFOs and links at the second pass", script: `mkdir d e f; for i in $(seq 100); do echo $i >d/$i; echo $i >e/$i; echo $i >f/$i; done`,
		then:   `rm -rf mine d e; mkfifo mine d; ln -s "$OUTSIDE" e; for i in $(seq 50); do rm f/$i; mkfifo f/$i; done; for i in $(seq 51 100); do ln -sf "$OUTSIDE/secret" f/$i; done`,
		effect: hostile.Fails, control: ` ); rm mine; mkfifo mine; timeout 2 cat mine`},
	{name: "names", abuses: "names with line breaks, control characters and invalid UTF-8, and of 255 bytes", script: `touch "$(printf 'a\nb')" "$(printf '\033[2J\033]0;x\007')" "$(printf '\377\376')" -- -rf ' ' '*'; mkdir "$(printf '\n')" "$(seq 1 200 | tr -d '\n' | cut -c1-255)"`,
		why: "no control: a copy has all names"},
	{name: "closed", abuses: "a top that nobody may enter, of another owner, with a time to come", script: `mkdir -p a/b && touch a/b/c && chmod 0 a/b a; chown 1234:1234 . ; chmod 0 .git .; touch -d 2100-01-01 .`, why: "no control: root may enter all"},
	{name: "immutable", abuses: "files and directories that not even root can change (privileged)", script: `mkdir i; echo x >i/f; chattr +i i/f i; echo x >a; chattr +a a`, privileged: true, effect: hostile.Fails, control: ` ); rm i/f`},
	{name: "git-link", abuses: "a .git that is a link to outside", script: `mv .git old; rm -rf .git; ln -s "$OUTSIDE" .git`, effect: hostile.Writes, control: thenFork},
	{name: "git-inside", abuses: "a .git that is a link to another directory of the tree, with locks in it", script: `mkdir other; echo x >other/index.lock; mv .git old; rm -rf .git; ln -s other .git`, inFork: `[ -s other/index.lock ] && [ -L .git ]`,
		effect: hostile.Writes, control: ` ); cp -a . ../copy; rm ../copy/other/* && touch "$OUTSIDE/new"`},
	{name: "hdcache-link", abuses: "a link to outside in place of the cache", script: `rm -rf .git/hdcache; ln -s "$OUTSIDE" .git/hdcache`, effect: hostile.Writes, control: thenFork, differs: []string{".git/hdcache"}},
	{name: "hdcache-fifo", abuses: "a FIFO in place of the cache, and of the link to it", script: `rm -rf .git/hdcache .hdcache; mkfifo .git/hdcache .hdcache`, effect: hostile.Fails, control: ` ); timeout 2 cat .hdcache`, differs: []string{".git/hdcache"}},
	{name: "about-link", abuses: "a link to outside in place of helmdeck.json", script: `rm -f .git/helmdeck.json; ln -s "$OUTSIDE/new" .git/helmdeck.json`, effect: hostile.Writes, control: thenFork},
	{name: "about-fifo", abuses: "a FIFO in place of helmdeck.json", script: `rm -f .git/helmdeck.json; mkfifo .git/helmdeck.json`, inFork: `grep -q '"workspace"' .git/helmdeck.json`, effect: hostile.Fails, control: ` ); timeout 2 sh -c 'echo x >.git/helmdeck.json'`},
	{name: "about-directory", abuses: "a directory in place of helmdeck.json, with locks in it", script: `rm -f .git/helmdeck.json; mkdir -p .git/helmdeck.json/x; touch .git/helmdeck.json/x.lock`, effect: hostile.Fails,
		control: ` ); echo x >.git/helmdeck.json`, differs: []string{".git/helmdeck.json/x.lock"}},
	{name: "mark", abuses: "a link, a FIFO and a directory in place of the mark of publish", script: `mkfifo .git/helmdeck-publish`, then: `rm .git/helmdeck-publish; ln -s "$OUTSIDE/secret" .git/helmdeck-publish`, effect: hostile.Reads,
		control: ` ); ln -sf "$OUTSIDE/secret" .git/helmdeck-publish; cat .git/helmdeck-publish`, differs: []string{".git/helmdeck-publish"}},
	{name: "locks", abuses: "locks that are directories, links, FIFOs and devices", script: `mkdir -p .git/index.lock/x.lock; ln -s "$OUTSIDE/secret" .git/HEAD.lock; mkfifo .git/config.lock; mknod .git/shallow.lock c 1 5; mkdir -p .git/refs/heads/a.lock`,
		inFork: `[ -d .git/index.lock/x.lock ] && [ -L .git/HEAD.lock ] && [ -p .git/config.lock ]`, effect: hostile.Fails, control: ` ); git add mine`},
	{name: "locks-linked", abuses: "a directory of refs that is a link to outside, where locks are", script: `rm -rf .git/refs/heads; mkdir refs; touch refs/x.lock; ln -s ../../refs .git/refs/heads; ln -s "$OUTSIDE" .git/refs/outside`,
		inFork: `[ -e refs/x.lock ]`, effect: hostile.Writes, control: ` ); touch "$OUTSIDE/new.lock"; find -L .git -name '*.lock' -delete`},
	{name: "locks-many", abuses: "5,000 locks of git", script: `mkdir -p .git/refs/heads/d; cd .git/refs/heads/d; seq 5000 | sed 's/$/.lock/' | xargs touch`, inFork: `[ $(ls .git/refs/heads/d | wc -l) -ge 4000 ] && git add mine && git status >/dev/null`, differs: []string{"*"},
		effect: hostile.Fails, control: ` ); [ $(find .git -name '*.lock' -print -delete | wc -l) -lt 1000 ]`},
}
