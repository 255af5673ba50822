package hostile

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/git/gitserver/hostile"
	"github.com/helmdeck/repos/tests/wait"
)

func init() {
	groups = append(groups, lookAttacks)
	order["look"] = 9
}

// The naive way to look at a workspace: git in it, and an archive of it.
const thenLook = ` ); git status --porcelain; git diff HEAD; git diff --stat HEAD`

// lookAttacks returns the attacks of a container on whoever looks at its workspace: while it runs,
// and at what it left.
func lookAttacks() []attack {
	var all []attack
	for _, c := range looks {
		script := c.script
		if c.during { // in a control nothing looks meanwhile
			script = "touch stop; " + script
		}
		a := attack{group: "look", name: c.name, abuses: "looked at: " + c.abuses, control: control{script: inWorkTree + script + cmp.Or(c.control, thenLook), effect: c.effect, why: c.why}}
		if c.why != "" {
			a.control.script = ""
		}
		a.run = func(s *scene) { s.attackLook(c.script, c.during, c.once, c.want) }
		all = append(all, a)
	}
	return all
}

// attackLook runs a script in a container, and looks at its workspace while it is mounted, and when
// it is a checkpoint, unless once is set. If during is set, the script runs meanwhile, until there is a
// file "stop". want are parts of each status, as JSON.
func (s *scene) attackLook(script string, during, once bool, want []string) {
	s.Helper()
	if err := s.create(map[string]string{"repo": server.URL("honest"), "ref": "main"}); err != nil {
		s.Fatal(err)
	}
	tree := s.mustMount("first")
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		out, err := s.runInContainer(tree, "echo x >changed\n"+script, false)
		s.Logf("%v %.2000s", err, out)
	}()
	if !during {
		<-ended
	}
	id := s.workspace(tree)
	rounds := 1
	if during {
		rounds = 5
	}
	for range rounds {
		s.look(id, want)
	}
	if during {
		if out, err := s.runInContainer(tree, "touch stop", false); err != nil {
			s.Errorf("stop: %v: %s", err, out)
		}
		<-ended
	}
	s.unmount("first")
	if err := wait.Until(s, func() error { _, err := s.plugin.Admin.Checkpoint(s.Context(), id); return err }); err != nil {
		s.Fatalf("the checkpoint: %v", err)
	}
	if !once {
		s.look(id, want)
	}
	s.outcome = "seen"
}

// workspace returns the ID of the workspace that is mounted at a path.
func (s *scene) workspace(tree string) string {
	s.Helper()
	list, err := s.plugin.Admin.Workspaces(s.Context(), api.Filter{Volume: s.volume})
	for _, w := range list {
		if strings.HasSuffix(tree, "/"+w.ID) {
			return w.ID
		}
	}
	s.Fatalf("no workspace at %q: %v, %v", tree, list, err)
	return ""
}

// look asks for what a workspace changed in all ways, and keeps the answers.
func (s *scene) look(id string, want []string) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), wait.Most(s))
	defer cancel()
	began := time.Now()
	status, err := s.plugin.Admin.WorkspaceStatus(ctx, id, api.Compare{Ignored: true})
	if err != nil {
		s.Errorf("status: %v", err)
	}
	text, _ := json.Marshal(status)
	for _, part := range want {
		if !bytes.Contains(text, []byte(part)) {
			s.Errorf("status lacks %q: %.2000s", part, text)
		}
	}
	fmt.Fprintln(&s.said, string(text[:min(len(text), 1<<20)]))
	for name, get := range map[string]func(context.Context, string, api.Compare, io.Writer) error{
		"diff": s.plugin.Admin.WorkspaceDiff, "export": s.plugin.Admin.WorkspaceChanges,
	} {
		kept := &beginning{}
		if err := get(ctx, id, api.Compare{Ignored: true}, kept); err != nil {
			s.Errorf("%s: %v", name, err)
		}
		s.said.Write(kept.Bytes())
	}
	s.Logf("looked for %v", time.Since(began))
}

// beginning keeps the first megabyte of what is written.
type beginning struct{ bytes.Buffer }

func (b *beginning) Write(p []byte) (int, error) {
	b.Buffer.Write(p[:min(len(p), max(0, 1<<20-b.Len()))])
	return len(p), nil
}

// attributes is a script that gives all files a driver, and changes some.
const attributes = `printf '* diff=x filter=x\n' | tee .gitattributes >.git/info/attributes; for f in $(git ls-files | head -n 3); do echo x >>"$f"; done; `

// looks are the attacks on whoever looks.
var looks = []struct {
	name, abuses string
	script       string
	effect       hostile.Effect
	control      string // what the control does in place of thenLook
	why          string // the reason why the attack has no control
	during       bool
	once         bool // because each look takes as long as it may
	want         []string
}{
	{name: "fsmonitor", abuses: "a file system monitor", script: setting("core.fsmonitor", "touch $CANARY; false"), effect: hostile.Runs},
	{name: "textconv", abuses: "a program that converts for a diff", script: attributes + setting("diff.x.textconv", "touch $CANARY; cat"), effect: hostile.Runs},
	{name: "diff-command", abuses: "a diff program of an attribute", script: attributes + setting("diff.x.command", "touch $CANARY; true"), effect: hostile.Runs},
	{name: "diff-external", abuses: "a diff program of the repository", script: attributes + setting("diff.external", "touch $CANARY; true"), effect: hostile.Runs},
	{name: "filter", abuses: "a filter of all files", script: attributes + setting("filter.x.clean", "touch $CANARY; cat"), effect: hostile.Runs},
	{name: "filter-process", abuses: "a filter process of all files", script: attributes + setting("filter.x.process", "touch $CANARY"), effect: hostile.Runs},
	{name: "hooks", abuses: "a hook that runs when the index is written", script: `mkdir -p .git/hooks; printf '#!/bin/sh\ntouch %s\n' "$CANARY" >.git/hooks/post-index-change
		chmod +x .git/hooks/post-index-change; for f in $(git ls-files | head -n 3); do touch "$f"; done`, effect: hostile.Runs},
	{name: "nested", abuses: "a repository in the index, with a monitor of its own", script: `git init -q nested; cd nested; touch x; git add x
		git -c user.name=a -c user.email=a@b commit -qm x; cd ..; git add nested; git -C nested config core.fsmonitor "touch $CANARY; false"`, effect: hostile.Runs},
	{name: "gitfile", abuses: "a .git that names another repository", script: `cp -r .git evil; git -C evil config core.fsmonitor "touch $CANARY; false"; mv .git old || rm -rf .git/*; echo 'gitdir: evil' >.git`, effect: hostile.Runs},
	{name: "git-gone", abuses: "no .git, and no commit", script: `mv .git gone; rm -rf gone/* gone .git/refs .git/HEAD .git/packed-refs`, effect: hostile.Fails, want: []string{`"head_error":`}},
	{name: "head-cycle", abuses: "a HEAD in a circle", script: `mkdir -p .git/refs/heads; echo 'ref: refs/heads/a' >.git/HEAD; echo 'ref: refs/heads/b' >.git/refs/heads/a; echo 'ref: refs/heads/a' >.git/refs/heads/b`,
		effect: hostile.Fails, want: []string{`"head_error":`}},
	{name: "link", abuses: "links to outside in place of files", script: `for f in $(git ls-files | head -n 3); do ln -sf "$OUTSIDE/secret" "$f"; done; ln -s "$OUTSIDE/secret" new`, effect: hostile.Reads,
		control: ` ); cat new`},
	{name: "link-directory", abuses: "a link to outside in place of a directory, with files of the same names", script: `d=$(git ls-files | grep / | head -n 1 | cut -d/ -f1); mv "$d" moved; ln -s "$OUTSIDE" "$d"; ln -s "$OUTSIDE" new`,
		effect: hostile.Reads, control: ` ); tar -chf - new | cat`},
	{name: "ignore-link", abuses: "a .gitignore that is a link to outside", script: `rm -f .gitignore; ln -s "$OUTSIDE/secret" .gitignore; touch new`, effect: hostile.Reads, control: ` ); cat .gitignore`},
	{name: "ignore-slow", abuses: "patterns that take long to match", script: `for i in $(seq 3000); do echo 'a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b'; done >.gitignore; for i in $(seq 50); do touch "$(printf 'a%.0s' $(seq 200))$i"; done`,
		why: "no control: it only takes time", once: true, want: []string{"takes more than"}},
	{name: "ignore-huge", abuses: "a .gitignore of 8 GiB", script: `truncate -s 8G .gitignore; touch new`, why: "no control: it only takes memory", want: []string{`".gitignore"`}},
	{name: "fifos", abuses: "FIFOs in place of files and of .gitignore", script: `for f in $(git ls-files | head -n 3) .gitignore new; do rm -f "$f"; mkfifo "$f"; done`, effect: hostile.Fails,
		control: ` ); timeout 2 cat new`, want: []string{"it is a FIFO"}},
	{name: "devices", abuses: "devices without an end", script: `mknod zero c 1 5; f=$(git ls-files | head -n 1); rm "$f"; mknod "$f" c 1 5`, effect: hostile.Fails,
		control: ` ); timeout 2 cat zero >/dev/null`, want: []string{"it is a device"}},
	{name: "sparse", abuses: "files of 10 TB without content", script: `truncate -s 10T new; truncate -s 10T "$(git ls-files | head -n 1)"`, effect: hostile.Fails, control: ` ); timeout 2 cat new >/dev/null`},
	{name: "many", abuses: "110,000 names", script: `mkdir many; cd many; seq 1 110000 | xargs -n 5000 touch`, why: "no control: it only takes time", want: []string{`"truncated":`}},
	{name: "deep", abuses: "11,400 levels of directories", script: deepScript + `; echo x >new`, why: "no control: it only takes time", want: []string{"its path is too long"}},
	{name: "names", abuses: "names that control a terminal, and names of many lines", script: `touch "$(printf 'a\nb')" "$(printf '\033[2J\033]0;x\007')" "$(printf '\377\376')" -- --rf ':(exclude)*' '"'; mkdir "$(printf '\n')"; touch "$(printf '\n')/x"`,
		why: "no control: git escapes names", want: []string{`"raw_path":"//4="`}},
	{name: "names-git", abuses: "names that git refuses", script: `mkdir -p x/.GIT y/.git 'z/git~1'; touch x/.GIT/config y/.git/config 'z/git~1/config'`, why: "no control: git refuses them too"},
	{name: "swap", abuses: "a directory and a link to outside that change places meanwhile", script: `mkdir -p a b; echo x >a/secret; ln -s "$OUTSIDE" link; i=0
		while [ ! -e stop ] && [ $i -lt 20000 ]; do i=$((i+1)); mv -T a b/a; mv -T link a; mv -T a link; mv -T b/a a; done`, effect: hostile.Reads, during: true,
		control: ` ); mv a b/a; mv link a; cat a/secret`},
	{name: "moving", abuses: "directories that move and files that grow meanwhile", script: `mkdir -p a/b/c/d/e/f/g e; i=0
		while [ ! -e stop ] && [ $i -lt 20000 ]; do i=$((i+1)); echo $i >>a/b/c/x; mv a/b/c/d e/d; echo $i >e/d/x; mv e/d a/b/c/d; rm -f a/b/c/x; done`, during: true, why: "no control: git reads what it finds"},
}
