package hostile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/git/gitserver/hostile"
	"github.com/helmdeck/repos/tests/wait"
)

func init() { groups = append(groups, handoutAttacks) }

// naiveHelper is the control: a credential helper that answers every question, as one that is
// configured for all URLs does. The attack asks git, which repeats the answer.
const naiveHelper = `git init -q w && cd w && git config credential.helper '!f() { echo username=me; echo "password=$(head -n 1 "$OUTSIDE/secret")"; }; f' && git config credential.useHttpPath true
printf '%b' "$ASK" | git credential fill`

// handoutAttacks returns the attacks of containers on the credential of their volume, which has
// auth=container. The credential's secret is the text that nothing may print or store.
func handoutAttacks() []attack {
	const none = "no control: git is not involved"
	// asks is an attack that asks the socket for something else, and git's helper in the control.
	asks := func(name, abuses string, fields ...string) attack {
		text := strings.Join(fields, "\n") + "\n"
		return attack{
			name: name, abuses: abuses,
			control: control{script: naiveHelper, effect: hostile.Reads, env: func(*trap) []string { return []string{"ASK=" + text + "\n"} }},
			run: func(s *scene) {
				tree := s.handedOut(nil)
				s.refuses(s.ask(tree, "action=get\n"+strings.ReplaceAll(text, "HOST", serverHost())))
			},
		}
	}
	noControl := func(name, abuses string, run func(s *scene)) attack {
		return attack{name: name, abuses: abuses, run: run, control: control{why: none}}
	}
	with := func(script string, effect hostile.Effect, a attack) attack {
		a.control = control{script: script, effect: effect, env: func(*trap) []string { return []string{`ASK=protocol=http\nhost=127.0.0.1\npath=honest\n\n`} }}
		return a
	}
	all := []attack{
		asks("host", "another host", "protocol=http", "host=evil.example.com", "path=honest"),
		asks("host-longer", "a host that begins like the volume's", "protocol=http", "host=HOST.evil.example.com", "path=honest"),
		asks("port", "another port of the host", "protocol=http", "host=127.0.0.1:1", "path=honest"),
		asks("protocol", "another protocol", "protocol=https", "host=HOST", "path=honest"),
		asks("path", "another repository of the host", "protocol=http", "host=HOST", "path=other"),
		asks("path-longer", "a repository whose name begins like the volume's", "protocol=http", "host=HOST", "path=honester"),
		asks("path-dots", "a path that leads elsewhere and back", "protocol=http", "host=HOST", "path=other/../honest"),
		asks("userinfo", "the volume's host as the user of another", "protocol=http", "host=HOST@evil.example.com", "path=honest"),
		asks("no-path", "the whole host", "protocol=http", "host=HOST"),
		with(naiveHelper, hostile.Reads, noControl("host-twice", "two hosts, of which the server checks one and git uses the other", func(s *scene) {
			s.refuses(s.ask(s.handedOut(nil), s.question()+"host=evil.example.com\n"))
		})),
		noControl("carriage-return", "carriage returns, at which some programs end a line (CVE-2024-52006)", func(s *scene) {
			s.refuses(s.ask(s.handedOut(nil), strings.ReplaceAll(s.question(), "\n", "\r\n")))
			s.refuses(s.ask(s.handedOut(nil), strings.Replace(s.question(), "path=", "path=x\rpath=", 1)))
		}),
		noControl("request-large", "a request of 64 MiB", func(s *scene) {
			s.refuses(s.askWith(s.handedOut(nil), io.LimitReader(blanks{}, 64<<20)))
		}),
		noControl("connections", "5,000 connections that send half a request", (*scene).flood),
		with(naiveHelper, hostile.Reads, noControl("other-subject", "a credential that is for another subject", func(s *scene) {
			tree := s.handedOut(func(c *api.PutCredential, _ map[string]string) { c.Subject = "somebody-else" })
			s.refuses(s.ask(tree, s.question()))
		})),
		with(`setpriv --reuid 65534 --clear-groups cat "$OUTSIDE/secret"`, hostile.Reads, noControl("other-user", "a user of the machine who is in no container", (*scene).connectAsOther)),
		noControl("other-lease", "the directories above and beside the socket", (*scene).reachForOthers),
		with(`cp "$OUTSIDE/secret" kept; cat kept`, hostile.Reads, noControl("after-release", "a connection and a descriptor of the directory, kept beyond the lease", (*scene).outliveLease)),
		with(`echo true >helper; echo "touch $CANARY" >helper; sh helper`, hostile.Runs, noControl("write", "a script and a socket of its own in their place", (*scene).replaceHelper)),
		with(`ln -s "$OUTSIDE" .git; mkdir -p .git/helmdeck; touch .git/helmdeck/socket`, hostile.Writes, noControl("link", "a link in place of .git, before the kept workspace is mounted again", func(s *scene) {
			s.mountedAgain(`mkdir -p "$OUTSIDE/git/helmdeck"; mv .git moved; ln -s "$OUTSIDE/git" .git`)
		})),
		with(`mkdir .git; ln -s "$OUTSIDE" .git/helmdeck; touch .git/helmdeck/socket`, hostile.Writes, noControl("link-inside", "a link in place of .git/helmdeck", func(s *scene) {
			s.mountedAgain(`mkdir -p "$OUTSIDE/git"; mv .git moved; cp -a moved .git 2>/dev/null; rm -rf .git/helmdeck; ln -s "$OUTSIDE/git" .git/helmdeck`)
		})),
		with(`git init -q w && cd w && git config credential.helper "!touch $CANARY;:"; printf "%b" "$ASK" | git credential fill; true`, hostile.Runs, noControl("next", "a helper in .git/config for the next container", (*scene).nextIsClean)),
	}
	for i := range all {
		all[i].group = "handout"
	}
	return all
}

// serverHost is the host, with the port, of the volume's URL.
func serverHost() string { return server.Addr() }

// question is what git asks for the volume's repository.
func (s *scene) question() string {
	return "action=get\ntimeout=900\nprotocol=http\nhost=" + serverHost() + "\npath=honest\n"
}

// handedOut stores a credential with the secret for the case's subject, creates the volume with
// auth=container, and mounts it. change, if not nil, changes both. A control question shows that the
// socket works.
func (s *scene) handedOut(change func(c *api.PutCredential, options map[string]string)) (tree string) {
	s.Helper()
	if len(s.leases) > 0 {
		return s.tree
	}
	c := api.PutCredential{Kind: api.HTTPS, Scope: server.URL("honest"), Subject: s.volume, User: "me", Secret: s.secret}
	options := map[string]string{"repo": server.URL("honest"), "ref": "main", "auth": "container"}
	if change != nil {
		change(&c, options)
	}
	if err := s.plugin.Admin.PutCredential(s.Context(), s.volume, c); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		if err := s.plugin.Admin.RemoveCredential(context.Background(), s.volume); err != nil {
			s.Error(err)
		}
	})
	if err := s.create(options); err != nil {
		s.Fatal(err)
	}
	s.tree = s.mustMount("first")
	if c.Subject == s.volume {
		s.wantWorks(s.tree)
	}
	return s.tree
}

// wantWorks checks that the socket answers the question that it is for.
func (s *scene) wantWorks(tree string) {
	s.Helper()
	if got := s.ask(tree, s.question()); got != "username=me\npassword="+s.secret+"\n" {
		s.Errorf("git's own question: got %q", got)
	}
}

func (s *scene) ask(tree, request string) string {
	s.Helper()
	return s.askWith(tree, strings.NewReader(request))
}

// askWith sends a request to the socket, and returns the answer.
func (s *scene) askWith(tree string, request io.Reader) string {
	s.Helper()
	conn, err := net.Dial("unix", socketOf(tree))
	if err != nil {
		s.Errorf("connect: %v", err)
		return ""
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(wait.Most(s)))
	io.Copy(conn, request) // the plugin may hang up before it has read all
	conn.(*net.UnixConn).CloseWrite()
	answer, _ := io.ReadAll(conn)
	return string(answer)
}

func socketOf(tree string) string { return filepath.Join(tree, ".git/helmdeck/socket") }

// refuses checks that an answer has no secret.
func (s *scene) refuses(answer string) {
	s.Helper()
	fmt.Fprintln(&s.said, answer)
	if strings.Contains(answer, "password") || answer != "" && !strings.HasPrefix(answer, "problem=") {
		s.Errorf("got %q", answer)
	}
	s.outcome = "refused"
}

func (s *scene) flood() {
	s.Helper()
	tree := s.handedOut(nil)
	var open []net.Conn
	dialer := net.Dialer{Timeout: 100 * time.Millisecond} // the queue of the socket becomes full
	for range 5000 {
		conn, err := dialer.Dial("unix", socketOf(tree))
		if err != nil {
			break
		}
		defer conn.Close()
		io.WriteString(conn, "action=get\n")
		open = append(open, conn)
	}
	if err := s.plugin.alive(); err != nil {
		s.Errorf("with %d connections: %v", len(open), err)
	}
	other := api.PutCredential{Kind: api.HTTPS, Scope: server.URL("honest"), Subject: s.volume + "-2", User: "me", Secret: s.secret}
	if err := errors.Join(
		s.plugin.Admin.PutCredential(s.Context(), s.volume+"-2", other),
		s.plugin.Create(s.Context(), s.volume+"-2", map[string]string{"repo": server.URL("honest"), "auth": "container", "subject": s.volume + "-2"}),
	); err != nil {
		s.Fatal(err)
	}
	second, err := s.plugin.Mount(s.Context(), s.volume+"-2", "1")
	if err != nil {
		s.Fatal(err)
	}
	s.wantWorks(second)
	if err := errors.Join(
		s.plugin.Unmount(s.Context(), s.volume+"-2", "1"), s.plugin.Remove(s.Context(), s.volume+"-2"),
		s.plugin.Admin.RemoveCredential(s.Context(), s.volume+"-2"),
	); err != nil {
		s.Error(err)
	}
	for _, conn := range open {
		conn.Close()
	}
	s.wantWorks(tree)
	s.outcome = "ignored"
}

// connectAsOther checks that a user of the host can't connect to the socket by any of its paths.
func (s *scene) connectAsOther() {
	s.Helper()
	tree := s.handedOut(nil)
	sockets, err := filepath.Glob(filepath.Join(s.clones(), "*/workspaces/*/helper/socket"))
	if err != nil || len(sockets) != 1 {
		s.Fatalf("sockets: %q, %v", sockets, err)
	}
	for _, socket := range append(sockets, socketOf(tree)) {
		if out, err := exec.Command("setpriv", "--reuid", "65534", "--clear-groups", "test", "-e", socket).CombinedOutput(); err == nil {
			s.Errorf("the user nobody reaches %s: %s", socket, out)
		}
	}
	s.outcome = "refused"
}

// reachForOthers looks from the bind for the directories that hold it on the host.
func (s *scene) reachForOthers() {
	s.Helper()
	tree := s.handedOut(nil)
	out, err := s.runInContainer(tree, `cd .git/helmdeck; ls; ls -d ../helmdeck/../../.git; cat ../manifest.json ../../manifest.json ../upper ../../../store 2>&1 | grep -v -e "No such" -e "directory"; true`, false)
	if want := "credential\nsocket\n../helmdeck/../../.git\n"; err != nil || out != want {
		s.Errorf("got %q, %v; want %q", out, err, want)
	}
	s.outcome = "refused"
}

func (s *scene) outliveLease() {
	s.Helper()
	tree := s.handedOut(nil)
	conn, err := net.Dial("unix", socketOf(tree))
	if err != nil {
		s.Fatal(err)
	}
	defer conn.Close()
	io.WriteString(conn, s.question())
	dir, err := os.Open(filepath.Dir(socketOf(tree)))
	if err != nil {
		s.Fatal(err)
	}
	defer dir.Close()
	socket, err := unix.Openat(int(dir.Fd()), "socket", unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		s.Fatal(err)
	}
	defer unix.Close(socket)
	s.unmount("first")
	conn.(*net.UnixConn).CloseWrite()
	if answer, _ := io.ReadAll(conn); len(answer) > 0 {
		s.Errorf("the connection of before got %q", answer)
	}
	for _, path := range []string{fmt.Sprintf("/proc/self/fd/%d/socket", dir.Fd()), fmt.Sprintf("/proc/self/fd/%d", socket)} {
		if conn, err := net.Dial("unix", path); err == nil {
			conn.Close()
			s.Errorf("%s still answers", path)
		}
	}
	s.outcome = "refused"
}

func (s *scene) replaceHelper() {
	s.Helper()
	tree := s.handedOut(nil)
	out, err := s.runInContainer(tree, `cd .git/helmdeck
		for c in 'touch x' 'rm -f socket' 'rm -f credential' 'mv credential y' 'ln -s /etc/passwd z' 'chmod 777 .' 'chown 1 socket' 'truncate -s 0 credential' 'rmdir ../helmdeck' 'mv ../helmdeck ../moved' \
			'mount -o remount,bind,rw .' 'umount .' 'mknod socket2 b 8 0'; do
			sh -c "$c" 2>/dev/null && echo "done: $c"
		done; true`, false)
	if err != nil || out != "" {
		s.Errorf("got %q, %v", out, err)
	}
	s.wantWorks(tree)
	s.outcome = "refused"
}

// mountedAgain runs a script in the container of a kept workspace, takes its mount away as a restart of
// the machine does, and mounts it again.
func (s *scene) mountedAgain(script string) {
	s.Helper()
	tree := s.handedOut(func(_ *api.PutCredential, options map[string]string) { options["mode"] = "keep" })
	s.before = "" // the script makes the directory outside: what counts is that nothing is put there
	out, err := s.runInContainer(tree, script, false)
	s.Logf("%v %s", err, out)
	s.unmount("first")
	s.before = s.outsideState(s.T)
	if out, err := exec.Command("umount", "-R", "-l", tree).CombinedOutput(); err != nil {
		s.Fatalf("umount: %v: %s", err, out)
	}
	s.tree = s.mustMount("second")
	if out, err := exec.Command("findmnt", "-rno", "TARGET").Output(); err != nil || strings.Contains(string(out), s.Outside) {
		s.Errorf("something is mounted outside: %v", err)
	}
	sockets, err := filepath.Glob(filepath.Join(s.clones(), "*/workspaces/*/helper/socket"))
	if err != nil || len(sockets) > 0 {
		s.Errorf("sockets that no container can have: %q, %v", sockets, err)
	}
	s.outcome = "mounted"
}

func (s *scene) nextIsClean() {
	s.Helper()
	tree := s.handedOut(nil)
	before, err := os.ReadFile(filepath.Join(tree, ".git/config"))
	if err != nil {
		s.Fatal(err)
	}
	out, err := s.runInContainer(tree, `git config credential.helper "!touch $CANARY;:"; git config credential.$BAIT.helper "!sh $PWD/.git/helmdeck/credential"; rm -f .git/helmdeck.json`, false)
	s.Logf("%v %s", err, out)
	s.unmount("first")
	s.tree = s.mustMount("second")
	if after, err := os.ReadFile(filepath.Join(s.tree, ".git/config")); err != nil || string(after) != string(before) {
		s.Errorf("the next container finds %q, %v, want %q", after, err, before)
	}
	s.wantWorks(s.tree)
	s.outcome = "reset"
}
