package dockerd

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/helmdeck/repos/tests/wait"
)

// NewWithContainerd is New with a separate containerd that is not a child of the engine, as a
// service manager starts it: Kill and Stop do not touch it or the containers' shims.
func NewWithContainerd(l wait.Limit, dir string, flags ...string) (*Engine, error) {
	e := &Engine{limit: l, dir: dir, flags: append([]string{"--containerd", dir + "/containerd.sock"}, flags...)}
	return e.setUp(e.startContainerd)
}

// startContainerd starts the separate containerd and waits until it listens.
func (e *Engine) startContainerd() error {
	config := fmt.Sprintf(`version = 2
root = %q
state = %q
disabled_plugins = ["io.containerd.grpc.v1.cri"]
[grpc]
address = %q
[plugins."io.containerd.internal.v1.opt"]
path = %q
`, e.Path("containerd"), e.Path("exec-containerd"), e.Path("containerd.sock"), e.Path("containerd/opt"))
	if err := os.WriteFile(e.Path("containerd.toml"), []byte(config), 0o644); err != nil {
		return err
	}
	log, err := os.OpenFile(e.Path("containerd.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	e.containerd = exec.Command("containerd", "--config", e.Path("containerd.toml"))
	e.containerd.Env = append(os.Environ(), "TMPDIR="+e.Path("tmp"))
	e.containerd.Stdout, e.containerd.Stderr = log, log
	e.containerd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := e.containerd.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func(c *exec.Cmd) {
		c.Wait()
		close(ended)
	}(e.containerd)
	e.containerdEnded = ended
	return wait.Until(e.limit, func() error {
		select {
		case <-ended:
			return errors.New("containerd has ended: " + Tail(e.Path("containerd.log"), 5, Relevant))
		default:
		}
		c, err := net.Dial("unix", e.Path("containerd.sock"))
		if err == nil {
			c.Close()
		}
		return err
	})
}

// stopContainerd ends the separate containerd with SIGTERM, and after the limit with SIGKILL.
func (e *Engine) stopContainerd() error {
	if e.containerdEnded == nil {
		return nil
	}
	if err := e.containerd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-e.containerdEnded:
	case <-time.After(wait.Most(e.limit)):
		e.containerd.Process.Kill()
		<-e.containerdEnded
	}
	return nil
}

// PowerOff does what a loss of power does: it kills all processes of the engine at once, and
// removes its mounts and the files that a machine has in memory. The next Start stands for the
// start after the boot, but the kernel's boot ID stays the same.
func (e *Engine) PowerOff() error {
	if e.containerdEnded != nil {
		e.containerd.Process.Kill()
		<-e.containerdEnded
		e.containerdEnded = nil
	}
	e.server.Process.Kill()
	<-e.exited
	if err := killAndUnmount(e.limit, e.dir); err != nil {
		return err
	}
	for _, volatile := range []string{"exec", "exec-containerd", "containerd.sock", "sock", "pid"} {
		if err := os.RemoveAll(e.Path(volatile)); err != nil {
			return err
		}
	}
	if e.containerd != nil {
		return e.startContainerd()
	}
	return nil
}
