package git

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/helmdeck/repos/internal/sandbox"
	"github.com/helmdeck/repos/internal/work"
)

// Run executes c and returns its stdout. If ctx ends first, the process group gets TERM,
// then KILL. In any case no process of the group is left when Run returns.
func (g *Git) Run(ctx context.Context, c Command) ([]byte, error) {
	if c.Judge != nil {
		self, err := os.Open(g.self)
		if err != nil {
			return nil, err
		}
		defer self.Close()
		c.files, c.Read = []*os.File{self}, append([]string{g.self, g.program}, c.Read...)
	}
	ctx, done, err := g.schedule(ctx, c)
	if err != nil {
		return nil, err
	}
	defer done()
	r := g.execution(ctx, c)
	defer r.close()
	if c.talk != nil {
		if err := r.openDialog(); err != nil {
			return nil, err
		}
	}
	err = g.sandbox.Run(r.cmd, sandbox.Task{UID: c.UID, GID: c.GID, Read: c.Read, Write: c.Write, Limits: r.limits})
	return r.result(err)
}

// execution is one run of a Command.
type execution struct {
	Command
	ctx    context.Context
	cancel context.CancelCauseFunc
	cmd    *exec.Cmd
	limits sandbox.Limits
	stdout *limited
	stderr *tail
	alarm  *alarm // nil without a limit on silence
	gate   *gate
	in     *os.File // the child's end of dialog's pipe
	dialog *talk    // nil for most
}

// execution prepares the execution of a command.
func (g *Git) execution(ctx context.Context, c Command) *execution {
	r := &execution{Command: c, limits: g.limitsOf(ctx, c), stdout: &limited{max: maxStdout}, stderr: &tail{max: maxStderr}}
	if c.MaxOutput > 0 {
		r.stdout.max = c.MaxOutput
	}
	r.ctx, r.cancel = context.WithCancelCause(ctx)
	if c.silence > 0 {
		r.alarm = &alarm{timer: time.AfterFunc(c.silence, func() { r.cancel(SilentError(c.silence)) }), after: c.silence}
	}
	program, args, config := g.invocation(c)
	r.cmd = exec.CommandContext(r.ctx, program, args...)
	r.cmd.Env = append(g.environment(c), configEnv(config)...)
	r.cmd.Dir = c.Dir
	r.cmd.ExtraFiles = c.files
	r.gate = &gate{ctx: r.ctx, scheduler: g.scheduler, cmd: r.cmd, silence: r.alarm}
	r.cmd.Stdin, r.cmd.Stdout, r.cmd.Stderr = strings.NewReader(c.Stdin), r.stdout, r.listeners()
	if c.stdout != nil {
		r.cmd.Stdout = c.stdout
	}
	return r
}

// listeners returns the writer for the command's stderr.
func (r *execution) listeners() io.Writer {
	list := []io.Writer{r.stderr}
	if r.fetches {
		list = append(list, &lines{f: r.gate.line})
	}
	if r.Stderr != nil {
		list = append(list, &lines{f: r.Stderr})
	}
	if r.alarm != nil {
		list = append(list, r.alarm)
	}
	return io.MultiWriter(list...)
}

// openDialog connects a command that reads requests from its stdin.
func (r *execution) openDialog() error {
	in, ours, err := os.Pipe()
	if err != nil {
		return err
	}
	r.in, r.dialog = in, r.talk(ours)
	r.cmd.Stdin, r.cmd.Stdout = in, r.dialog
	_, err = ours.WriteString(stateless)
	return err
}

// close releases the resources of an execution.
func (r *execution) close() {
	if r.dialog != nil {
		r.dialog.end()
		r.in.Close()
	}
	r.gate.end()
	if r.alarm != nil {
		r.alarm.pause()
	}
	r.cancel(nil)
}

// result returns the output of a command that ended with err, or a classified error.
func (r *execution) result(err error) ([]byte, error) {
	switch {
	case r.dialog == nil:
	case r.dialog.err != nil:
		return nil, r.dialog.err
	case r.dialog.state == talkFallback:
		return nil, nil // the helper's error is expected
	}
	if err == nil && r.stdout.cut {
		err = fmt.Errorf("more than %d bytes of output", r.stdout.max)
	}
	words := r.stderr.String()
	if r.Judge != nil {
		words, err = r.Judge(r.stdout.buf.Bytes(), err)
	}
	if err == nil {
		return r.stdout.buf.Bytes(), nil
	}
	cause := context.Cause(r.ctx)
	failure := newError(r.Op, r.url, words, cmp.Or(cause, err), mayHaveFilled(r.Write, bytesWritten(r.cmd)))
	if cause == nil {
		failure.explainLimit(r.limits, r.cmd.ProcessState)
	}
	if failure.Kind == KindOther && Full(r.Write) {
		failure.Kind = KindNoSpace // git does not always say why a write failed
	}
	return nil, failure
}

// runRemote executes c, which talks to the remote, with the credential for its URL,
// retries and redirects. It sets c.url, and c.Args to withURL of the URL.
func (g *Git) runRemote(ctx context.Context, r Remote, c Command, withURL func(url string) []string) (out []byte, err error) {
	kind := work.Fetch
	if c.question {
		kind = work.Question
	}
	ctx, done, err := g.scheduleRemote(ctx, kind, c.Op, r.URL)
	if err != nil {
		return nil, err
	}
	defer done()
	err = Retry(ctx, func() error {
		return g.follow(ctx, r, func(url string) error {
			out, err = g.runAt(ctx, r, url, c, withURL(url))
			return err
		})
	})
	return out, err
}

func (g *Git) runAt(ctx context.Context, r Remote, url string, c Command, args []string) ([]byte, error) {
	auth, err := r.auth(url)
	if err != nil {
		return nil, &Error{Op: c.Op, URL: url, Kind: KindCredential, Err: err}
	}
	c.url, c.Args = url, args
	c.UID, c.GID = g.uid, g.gid
	c.remote = true
	c.Env = slices.Concat(c.Env, g.proxies)
	pinned, err := pinConfig(url, r.Pin)
	if err != nil {
		return nil, err
	}
	// An empty helper removes those of any configuration.
	config := append([]string{"credential.helper", ""}, pinned...)
	if isHTTP(url) {
		c.silence = 0 // curl has its own limit (http.lowSpeedTime)
	}
	if g.caBundle != "" {
		config = append(config, "http.sslCAInfo", g.caBundle)
		c.Read = append([]string{g.caBundle}, c.Read...)
	}
	switch {
	case isSSH(url):
		session, err := newSSHSession(g.uid, g.gid, auth)
		if err != nil {
			return nil, err
		}
		defer session.Close()
		c.Env = append(c.Env, "GIT_SSH_COMMAND="+session.command()+pinSSH(url, r.Pin), "GIT_SSH_VARIANT=ssh")
		c.Read = append([]string{session.dir}, c.Read...)
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
	out, err := g.Run(ctx, c)
	g.explain(ctx, r, url, auth, err)
	if err != nil && c.cleanup != nil {
		err = errors.Join(err, c.cleanup())
	}
	return out, err
}
