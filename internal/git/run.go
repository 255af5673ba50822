package git

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/git/giterror"
	"github.com/helmdeck/repos/internal/git/sandbox"
	"github.com/helmdeck/repos/internal/work"
)

// Run executes c and returns its stdout. If ctx ends first, the process group gets TERM,
// then KILL. In any case no process of the group is left when Run returns.
func (g *Git) Run(ctx context.Context, c Command) (out []byte, err error) {
	began, asked := time.Now(), ctx
	defer func() { g.report(asked, "git", c.Op, c.url, began, err) }()
	if c.Judge != nil {
		self, err := os.Open(g.config.Self)
		if err != nil {
			return nil, err
		}
		defer self.Close()
		c.files, c.Read = []*os.File{self}, append([]string{g.config.Self, g.config.Program}, c.Read...)
	}
	var done func()
	switch {
	case c.remote || c.fetches || g.inherited: // the caller, or the parent process, has the slot
		done = func() {}
	case c.Heavy:
		if ctx, done, err = g.schedule(ctx, work.CPU, c.Large, c.Op, c.url); err != nil {
			return nil, err
		}
	default:
		ctx, done = withTimeout(ctx, work.CPU, g.config)
	}
	defer done()
	ran := time.Now() // after the wait for its turn
	defer func() { g.observeRun(c, ran, err) }()
	r := newExecution(ctx, g, c)
	defer r.close()
	run := func() (err error) {
		r.wrote, err = g.sandbox.Run(r.cmd, sandbox.Task{UID: c.UID, GID: c.GID, Read: c.Read, Write: c.Write, Limits: r.limits})
		return err
	}
	if c.Talk == nil {
		return r.result(run())
	}
	talkErr, err := r.converse(run)
	if talkErr != nil && !errors.Is(talkErr, io.ErrUnexpectedEOF) {
		return nil, talkErr
	}
	if _, err := r.result(err); err != nil {
		return nil, err // it says why the output is cut short
	}
	return nil, talkErr
}

var errSaid = fmt.Errorf("git, or the remote, printed more than %d MiB of messages: it was ended", maxSaid>>20)

// execution is one run of a Command.
type execution struct {
	Command
	ctx    context.Context
	cancel context.CancelCauseFunc
	cmd    *exec.Cmd
	limits sandbox.Limits
	wrote  int64 // bytes
	stdout *limited
	stderr *tail
	alarm  *alarm // nil if silence is not limited
	gate   *gate
}

// newExecution prepares the execution of a command.
func newExecution(ctx context.Context, g *Git, c Command) *execution {
	r := &execution{Command: c, limits: limitsOf(ctx, c, g.config), stdout: &limited{max: maxStdout}, stderr: &tail{max: maxStderr}}
	if c.MaxOutput > 0 {
		r.stdout.max = c.MaxOutput
	}
	r.ctx, r.cancel = context.WithCancelCause(ctx)
	if c.silence > 0 {
		r.alarm = &alarm{timer: time.AfterFunc(c.silence, func() { r.cancel(giterror.SilentError(c.silence)) }), after: c.silence}
	}
	program, args, config := invocation(c, g.config)
	r.cmd = exec.CommandContext(r.ctx, program, args...)
	r.cmd.Env = append(environment(c, g.config.Schemes), configEnv(config)...)
	r.cmd.Dir = c.Dir
	r.cmd.ExtraFiles = c.files
	r.gate = &gate{ctx: r.ctx, scheduler: g.config.Scheduler, cmd: r.cmd, threads: c.threads(g.config), nice: r.limits.Nice, silence: r.alarm}
	r.cmd.Stdin, r.cmd.Stdout, r.cmd.Stderr = strings.NewReader(c.Stdin), r.stdout, r.listeners()
	if c.Input != nil {
		r.cmd.Stdin = c.Input
	}
	if c.aside != nil {
		c.aside.listen(func() { r.cancel(errSaid) })
	}
	return r
}

// listeners returns the writer for the command's stderr.
func (r *execution) listeners() io.Writer {
	list := []io.Writer{r.stderr, &budget{maxSaid, func() { r.cancel(errSaid) }}}
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

// converse calls talk while run runs the command, and returns the errors of both. talk
// runs on the caller's goroutine.
func (r *execution) converse(run func() error) (talkErr, err error) {
	stdout, w := io.Pipe()
	r.cmd.Stdout = w
	var in *os.File
	var stdin io.WriteCloser
	if r.Dialog {
		if in, stdin, err = sandbox.Stdin(); err != nil {
			return nil, err
		}
		defer stdin.Close()
		r.cmd.Stdin = in
	}
	ran := make(chan error, 1)
	go func() {
		err := run()
		if in != nil {
			in.Close() // so that a write to a command that has ended fails with EPIPE
		}
		w.Close()
		ran <- err
	}()
	talkErr = r.Talk(r.ctx, stdin, stdout)
	ended := r.ctx.Err() != nil
	// Make a command that still writes fail with EPIPE.
	stdout.CloseWithError(io.ErrClosedPipe)
	if talkErr != nil && !errors.Is(talkErr, io.ErrUnexpectedEOF) {
		r.cancel(talkErr) // the remote may say nothing more, and so keep the command from writing
	}
	if err = <-ran; err != nil && ended {
		return nil, err // talk returned because the command was ended
	}
	return talkErr, err
}

// Feed returns a Command.Talk that gives the command what write writes, and ignores its stdout.
// If the command ends before it has read everything, its error says why.
func Feed(write func(context.Context, *bufio.Writer) error) func(ctx context.Context, stdin io.WriteCloser, stdout io.Reader) error {
	return func(ctx context.Context, stdin io.WriteCloser, stdout io.Reader) error {
		defer stdin.Close()
		w := bufio.NewWriterSize(stdin, 64<<10)
		err := write(ctx, w)
		if err == nil {
			err = w.Flush()
		}
		if err != nil && !errors.Is(err, syscall.EPIPE) {
			return err
		}
		stdin.Close()
		_, err = io.Copy(io.Discard, stdout)
		return err
	}
}

// close releases the resources of an execution.
func (r *execution) close() {
	r.gate.end()
	if r.alarm != nil {
		r.alarm.pause()
	}
	r.cancel(nil)
}

// result returns the output of a command that ended with err, or a classified error.
func (r *execution) result(err error) ([]byte, error) {
	if err == nil && r.stdout.cut {
		err = fmt.Errorf("more than %d bytes of output", r.stdout.max)
		if r.MaxOutput > 0 {
			err = fmt.Errorf("%w %s", err, SizeSetting)
		}
	}
	words := r.aside.words() + r.stderr.String()
	if r.Judge != nil {
		words, err = r.Judge(r.stdout.buf.Bytes(), err)
	}
	if err == nil {
		return r.stdout.buf.Bytes(), nil
	}
	cause := context.Cause(r.ctx)
	failure := giterror.New(r.Op, r.url, words, cmp.Or(cause, err), disk.MayHaveFilled(r.Write, r.wrote))
	if cause == errSaid {
		failure.Kind, failure.Detail = giterror.KindLimit, cause.Error()
	}
	if cause == nil {
		explainLimit(failure, r.limits, r.cmd.ProcessState)
	}
	if failure.Kind == giterror.KindOther && disk.Full(r.Write) {
		failure.Kind = giterror.KindNoSpace // git does not always say why a write failed
	}
	return nil, failure
}

// explainLimit sets the kind and the detail of an error if the command exceeded a limit. Do
// not call it for a command that the plugin itself ended.
func explainLimit(e *giterror.Error, l sandbox.Limits, state *os.ProcessState) {
	if said := l.Exceeded(state, e.Stderr); said != "" {
		e.Kind, e.Detail = giterror.KindLimit, said
	} else if e.Kind == giterror.KindLimit {
		e.Detail = l.OutOfMemory()
	}
}
