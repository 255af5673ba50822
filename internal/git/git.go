package git

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/net/http/httpproxy"
	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/work"
)

// Git runs git commands. It is immutable after New and safe for concurrent use.
type Git struct {
	program  string
	root     string
	self     string
	confined bool // this process is, and so are its children
	uid, gid uint32
	schemes  string
	landlock int
	caBundle string
	proxies  []string // environment
	tls      *tls.Config
	proxy    func(*http.Request) (*url.URL, error)
	stall    time.Duration

	scheduler                 *work.Scheduler
	workTimeout, fetchTimeout time.Duration
	memory                    int64 // bytes that a child may have
	workCPU, fetchCPU         time.Duration
}

// Config says how git is run.
type Config struct {
	// Program is the path of git; empty means the one found in /usr/bin or /bin.
	Program string
	// Root, if it is not empty, is the directory that git has as its root, in which
	// Program is found, and where all paths that it is given have to mean the same:
	// for tests with the git of the plugin's own root filesystem.
	Root string
	// Self is the program that checks out, this one: its main calls ServeJob first.
	// Empty means /proc/self/exe. With Root it has to be there.
	Self string
	// UID and GID are who fetches and owns the stores; not root in production.
	UID, GID uint32
	// Schemes are the transports that git may use, such as "https".
	Schemes []string
	// CABundle is a PEM file with all certificates that servers are checked
	// against; empty means the system's.
	CABundle string
	// Proxies, as the variables of the same names; they hold no password.
	HTTPProxy, HTTPSProxy, NoProxy string
	// StallTimeout is how long a remote may send nothing at all in a fetch, not
	// even that it is still at work, before the fetch is given up. Zero is five
	// minutes: a server that packs a large repository says nothing for long, if it
	// does not know how to keep a connection alive.
	StallTimeout time.Duration
	// Scheduler says when heavy commands may run; nil: at once.
	Scheduler *work.Scheduler
	// WorkTimeout is how long one piece of local work may take, once it runs, and
	// FetchTimeout how long a fetch may. Zero is ten minutes, and two hours.
	WorkTimeout, FetchTimeout time.Duration
	// Memory is how many bytes of its own a process may have that runs for a
	// repository; zero is 4 GiB.
	Memory int64
	// WorkCPU and FetchCPU are how much processor time such a process may take in
	// local work and in a fetch; zero is as long as the work may take, and 30 minutes
	// at most for a fetch. Seconds are rounded up.
	WorkCPU, FetchCPU time.Duration
}

const (
	defaultProgram = "/usr/bin/git"
	programDir     = "/usr/lib/git-core" // of the default program, in Debian
)

const defaultStallTimeout = 5 * time.Minute

// New returns a Git after it made sure that the program is there, and probed
// what the kernel offers to confine it.
func New(c Config) (*Git, error) {
	if c.Program == "" {
		c.Program = defaultProgram
	}
	if _, err := exec.LookPath(filepath.Join(c.Root, c.Program)); err != nil {
		return nil, fmt.Errorf("git is not installed: %w", err)
	}
	if err := adopt(); err != nil {
		return nil, err
	}
	abi, err := landlockABI()
	if err != nil {
		return nil, err
	}
	certificates, err := loadCA(c.CABundle)
	if err != nil {
		return nil, err
	}
	proxy := (&httpproxy.Config{HTTPProxy: c.HTTPProxy, HTTPSProxy: c.HTTPSProxy, NoProxy: c.NoProxy}).ProxyFunc()
	g := &Git{
		program: c.Program, root: c.Root, self: cmp.Or(c.Self, ownProgram), uid: c.UID, gid: c.GID,
		schemes: strings.Join(c.Schemes, ":"), landlock: abi,
		caBundle: c.CABundle, tls: certificates, stall: cmp.Or(c.StallTimeout, defaultStallTimeout),
		proxy:     func(r *http.Request) (*url.URL, error) { return proxy(r.URL) },
		scheduler: c.Scheduler, workTimeout: cmp.Or(c.WorkTimeout, defaultWorkTimeout), fetchTimeout: cmp.Or(c.FetchTimeout, defaultFetchTimeout),
	}
	g.setLimits(c)
	for _, v := range []struct{ name, value string }{
		{"http_proxy", c.HTTPProxy}, {"https_proxy", c.HTTPSProxy}, {"no_proxy", c.NoProxy},
	} {
		if v.value != "" {
			g.proxies = append(g.proxies, v.name+"="+v.value)
		}
	}
	return g, nil
}

// Confinement says in a few words how children are confined, for the log.
func (g *Git) Confinement() string {
	if g.landlock == 0 {
		return "uid, no capabilities, no-new-privileges (this kernel has no Landlock)"
	}
	return fmt.Sprintf("uid, no capabilities, no-new-privileges, Landlock ABI %d", g.landlock)
}

// Owner returns the uid and gid that fetch, and to which stores belong.
func (g *Git) Owner() (uid, gid int) { return int(g.uid), int(g.gid) }

// command is one run of git.
type command struct {
	op       string // for errors: what was attempted
	url      string // for errors
	args     []string
	env      []string // on top of the built environment
	config   []string // keys and values, in the environment too
	dir      string
	uid, gid uint32
	read     []string // directories that it may read
	write    []string // directories that it may change
	stderr   func(line string)
	files    []*os.File // inherited, from descriptor 3 on
	// silence, if set, is how long the child may say nothing before it is ended.
	silence time.Duration
	// cleanup, if set, is called after a failure, before another try.
	cleanup func() error
	stdin   string
	stdout  io.Writer // instead of what run returns; for output without a limit
	// talk, if set, returns the standard output of a command that writes its
	// standard input itself, after the line that asks for a connection.
	talk func(in *os.File) *talk
	// question is set for a command that takes milliseconds and that a Mount waits
	// for: it runs at the plugin's own priority and may take less.
	question bool
	// remote is set by runAt: the command may talk to one.
	remote bool
	// heavy has the command wait for a processor, and large for the end of other large
	// commands. They are for commands that do not talk to a remote.
	heavy, large bool
	// fetches says that the command receives a pack, and says how far it is.
	fetches bool
	// job is set for a job of this program: args are all that it is called with, and
	// it may answer more than git.
	job *jobRun
}

const (
	// stopGrace is how long a child has between TERM, which lets git remove its
	// lock files and temporary packs, and KILL.
	stopGrace = 5 * time.Second
	// maxStdout bounds what run returns. What may be larger, such as an answer of a
	// remote, is read while it comes.
	maxStdout = 8 << 20
	// maxStderr is the tail of stderr that is kept for the error.
	maxStderr = 8 << 10
)

// baseConfig is given to every command: no configuration of a store can switch
// on what would run another program.
var baseConfig = []string{
	"core.hooksPath=/dev/null",
	"core.fsmonitor=false",
	"core.askPass=",
	"gc.auto=0",
	"maintenance.auto=false",
	"protocol.version=2",
	"http.followRedirects=false",
	// One job, one processor: alone on two, index-pack of 125,000 objects (34 MB, 300
	// commits) takes 1.35 s with one thread and 1.5 s with two, which wait for each
	// other.
	"pack.threads=1",
}

// environment is all that a command finds in its own. One that is not to talk to
// a remote can't: without a transport, an object that a partial clone lacks is an
// error, where git would fetch it as whoever happens to read it.
func (g *Git) environment(c command) []string {
	schemes, extra := "", []string{"GIT_NO_LAZY_FETCH=1"} // known to git 2.45 and newer
	if c.remote {
		schemes, extra = g.schemes, nil
	}
	env := append([]string{
		"PATH=/usr/bin:/bin",
		"HOME=/nonexistent",
		"LC_ALL=C",
		"TZ=UTC",
		"GIT_CONFIG_NOSYSTEM=1",
		"GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_ATTR_NOSYSTEM=1",
		"GIT_TERMINAL_PROMPT=0",
		"GIT_ASKPASS=/bin/false",
		"SSH_ASKPASS=/bin/false",
		"GIT_SSH_COMMAND=/bin/false", // runAt says otherwise, where it is for ssh
		"GIT_ALLOW_PROTOCOL=" + schemes,
		"GIT_NO_REPLACE_OBJECTS=1",
	}, extra...)
	return append(env, c.env...)
}

// invocation returns what executes c, and the configuration for its environment. A
// transport is executed itself, which saves the run of git around it: more than
// the shell costs that limits it.
func (g *Git) invocation(c command) (program string, args, config []string) {
	if c.job != nil {
		if g.root != "" {
			return g.self, c.args, nil // there is no /proc
		}
		return jobProgram, c.args, nil
	}
	for _, kv := range baseConfig {
		args = append(args, "-c", kv)
	}
	args = append(args, c.args...)
	rest := args
	for len(rest) > 1 && rest[0] == "-c" {
		key, value, _ := strings.Cut(rest[1], "=")
		config = append(config, key, value)
		rest = rest[2:]
	}
	if len(rest) > 0 && strings.HasPrefix(rest[0], "remote-") && g.program == defaultProgram {
		if transport := filepath.Join(programDir, "git-"+rest[0]); unix.Access(filepath.Join(g.root, transport), unix.X_OK) == nil {
			return transport, rest[1:], append(config, c.config...)
		}
	}
	return g.program, args, c.config
}

// run executes c and returns its stdout. When ctx ends first, the whole process
// group is asked to end, then killed; either way nothing of it is left when run
// returns.
func (g *Git) run(ctx context.Context, c command) ([]byte, error) {
	ctx, done, err := g.schedule(ctx, c)
	if err != nil {
		return nil, err
	}
	defer done()
	program, args, config := g.invocation(c)
	stdout := &limited{max: maxStdout}
	if c.job != nil {
		stdout.max = maxJobAnswer
	}
	tail := &tail{max: maxStderr}
	stderr := io.Writer(tail)
	pause := &gate{ctx: ctx, scheduler: g.scheduler}
	defer pause.end()
	if c.fetches {
		said := c.stderr
		c.stderr = func(line string) {
			pause.line(line)
			if said != nil {
				said(line)
			}
		}
	}
	if c.stderr != nil {
		stderr = io.MultiWriter(tail, &lines{f: c.stderr})
	}
	if c.silence > 0 {
		var cancel context.CancelCauseFunc
		ctx, cancel = context.WithCancelCause(ctx)
		defer cancel(nil)
		watch := time.AfterFunc(c.silence, func() { cancel(silentError(c.silence)) })
		defer watch.Stop()
		pause.ctx, pause.silence = ctx, &alarm{timer: watch, after: c.silence}
		stderr = io.MultiWriter(stderr, pause.silence)
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(g.environment(c), configEnv(config)...)
	cmd.Dir = c.dir
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(c.stdin), stdout, stderr
	if c.stdout != nil {
		cmd.Stdout = c.stdout
	}
	var dialog *talk
	if c.talk != nil {
		in, ours, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		defer in.Close()
		dialog = c.talk(ours)
		defer dialog.end()
		if _, err := ours.WriteString(stateless); err != nil {
			return nil, err
		}
		cmd.Stdin, cmd.Stdout = in, dialog
	}
	cmd.ExtraFiles = c.files
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Setpgid:    true,
		Pdeathsig:  syscall.SIGKILL,
		Chroot:     g.root,
		Credential: &syscall.Credential{Uid: c.uid, Gid: c.gid},
	}
	cmd.Cancel = func() error { return terminate(cmd) }
	pause.cmd = cmd
	cmd.WaitDelay = stopGrace

	if g.confined {
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // in our process group
		cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	}

	limits := g.limitsOf(ctx, c)
	err = confined(cmd, confinement{inherited: g.confined, abi: g.landlock, root: g.root, read: c.read, write: c.write, limits: limits})
	switch {
	case dialog == nil:
	case dialog.err != nil:
		return nil, dialog.err
	case dialog.state == talkFallback:
		return nil, nil // the helper ends with an error then
	}
	if err == nil && stdout.cut {
		err = fmt.Errorf("more than %d bytes of output", stdout.max)
	}
	words := tail.String()
	if c.job != nil {
		words, err = c.job.judge(stdout.buf.Bytes(), err)
	}
	if err == nil {
		return stdout.buf.Bytes(), nil
	}
	cause := context.Cause(ctx)
	failure := newError(c.op, c.url, words, cmp.Or(cause, err), filled(c.write, wrote(cmd)))
	if cause == nil {
		failure.explainLimit(limits, cmd.ProcessState)
	}
	if failure.Kind == KindOther && full(c.write) {
		failure.Kind = KindNoSpace // git does not always say why it can't write
	}
	return nil, failure
}

// runRemote executes c, which talks to the remote's URL, with what it takes to be
// let in there; c.url is set here, and c.args gets the URL through withURL.
func (g *Git) runRemote(ctx context.Context, r Remote, c command, withURL func(url string) []string) (out []byte, err error) {
	kind := work.Fetch
	if c.question {
		kind = work.Question
	}
	ctx, done, err := g.scheduleRemote(ctx, kind, c.op, r.URL)
	if err != nil {
		return nil, err
	}
	defer done()
	err = retry(ctx, func() error {
		return g.follow(ctx, r, func(url string) error {
			out, err = g.runAt(ctx, r, url, c, withURL(url))
			return err
		})
	})
	return out, err
}

func (g *Git) runAt(ctx context.Context, r Remote, url string, c command, args []string) ([]byte, error) {
	auth, err := r.auth(url)
	if err != nil {
		return nil, &Error{Op: c.op, URL: url, Kind: KindCredential, Err: err}
	}
	c.url, c.args = url, args
	c.uid, c.gid = g.uid, g.gid
	c.remote = true
	c.env = slices.Concat(c.env, g.proxies)
	pinned, err := pinConfig(url, r.Pin)
	if err != nil {
		return nil, err
	}
	// An empty helper takes away those that any configuration may have named.
	config := append([]string{"credential.helper", ""}, pinned...)
	if isHTTP(url) {
		c.silence = 0 // curl watches the bytes themselves
	}
	if g.caBundle != "" {
		config = append(config, "http.sslCAInfo", g.caBundle)
		c.read = append([]string{g.caBundle}, c.read...)
	}
	switch {
	case isSSH(url):
		session, err := g.newSSHSession(auth)
		if err != nil {
			return nil, err
		}
		defer session.Close()
		c.env = append(c.env, "GIT_SSH_COMMAND="+session.command()+pinSSH(url, r.Pin), "GIT_SSH_VARIANT=ssh")
		c.read = append([]string{session.dir}, c.read...)
	case auth != nil && (auth.Password != "" || auth.Bearer != ""):
		more, pipe, err := httpAuth(url, auth)
		if err != nil {
			return nil, err
		}
		defer pipe.Close()
		config = append(config, more...)
		c.files = []*os.File{pipe}
	}
	c.config = config
	out, err := g.run(ctx, c)
	g.explain(ctx, r, url, auth, err)
	if err != nil && c.cleanup != nil {
		err = joinNotNil(err, c.cleanup())
	}
	return out, err
}

// scan calls f for each line of a command's output.
func scan(out []byte, f func(line string) error) error {
	s := bufio.NewScanner(bytes.NewReader(out))
	s.Buffer(nil, maxStdout)
	for s.Scan() {
		if err := f(s.Text()); err != nil {
			return err
		}
	}
	return s.Err()
}

// exitCode returns the exit code in err, or -1.
func exitCode(err error) int {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	return -1
}
