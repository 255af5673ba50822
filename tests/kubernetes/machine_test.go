package kubernetes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/tests/proc"
	"github.com/helmdeck/repos/tests/wait"
)

// The node's name and address. The address is from a range for documentation.
const (
	nodeName    = "node1"
	nodeAddress = "198.51.100.1"
)

// machine is a booted machine: see boot.sh.
type machine struct {
	wait.Limit
	dir  string // absolute, the same inside and outside
	init *exec.Cmd
	end  func()        // kills process 1
	over chan struct{} // closed when process 1 has ended
	// services are the programs that run, by name.
	services map[string]*service
	out      bytes.Buffer
	others   []string // the control groups of containers that are not the machine's
}

// service is a program that runs on the machine until stop or kill.
type service struct {
	cmd   *exec.Cmd // nsenter, whose child is the program
	ended chan struct{}
}

// newMachine makes the directory of a machine.
func newMachine(l wait.Limit, dir string) (*machine, error) {
	m := &machine{Limit: l, dir: dir, services: make(map[string]*service)}
	for _, name := range []string{"root", "settings", "kubelet", "data", "log", "bin"} {
		if err := os.MkdirAll(m.path(name), 0o755); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// path returns a path below the machine's directory, which is valid inside and outside.
func (m *machine) path(elem ...string) string {
	return filepath.Join(append([]string{m.dir}, elem...)...)
}

// seen returns where this machine's processes find a file of the machine.
func (m *machine) seen(path string) string {
	return filepath.Join("/proc", strconv.Itoa(m.init.Process.Pid), "root", path)
}

// boot boots the machine. What it had written outside of its directories is lost.
func (m *machine) boot() error {
	script, err := filepath.Abs("boot.sh")
	if err != nil {
		return err
	}
	for _, name := range []string{"upper", "work"} {
		if err := errors.Join(os.RemoveAll(m.path(name)), os.Mkdir(m.path(name), 0o755)); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(m.path("booted")); err != nil {
		return err
	}
	if m.others, err = groups(ofContainers); err != nil {
		return err
	}
	m.out.Reset()
	m.init = exec.Command(script, m.dir, nodeName, nodeAddress)
	m.init.Stdout, m.init.Stderr = &m.out, &m.out
	m.init.SysProcAttr = &syscall.SysProcAttr{
		Setpgid: true, Pdeathsig: syscall.SIGKILL,
		Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWNET,
	}
	started, kill := make(chan error), make(chan struct{})
	m.over = make(chan struct{})
	go func() {
		runtime.LockOSThread() // the kernel sends Pdeathsig when the thread that started the process ends
		err := m.init.Start()
		started <- err
		if err != nil {
			return
		}
		go func() { <-kill; m.init.Process.Kill() }()
		m.init.Wait()
		close(m.over)
	}()
	if err := <-started; err != nil {
		return err
	}
	m.end = func() { close(kill); <-m.over }
	return wait.Until(m, func() error {
		select {
		case <-m.over:
			return wait.Final(fmt.Errorf("the machine has ended: %s", m.out.String()))
		default:
		}
		_, err := os.Stat(m.path("booted"))
		return err
	})
}

// powerOff kills all processes at once. The kernel removes the mounts and the network with the last one, but no control
// groups: kubelet would look for the containers of those that are left when it starts again, for seconds each.
func (m *machine) powerOff() error {
	if m.end == nil {
		return nil
	}
	m.end()
	m.end = nil
	for name, s := range m.services {
		<-s.ended
		delete(m.services, name)
	}
	own, err := groups(filepath.Base(m.dir))
	containers, err2 := groups(ofContainers)
	parents, err3 := groups(filepath.Dir(ofContainers))
	errs := []error{err, err2, err3}
	for _, group := range append(own, containers...) {
		if !slices.Contains(m.others, group) {
			errs = append(errs, removeGroup(group))
		}
	}
	for _, group := range parents {
		_ = os.Remove(group) // if no other container has one
	}
	return errors.Join(errs...)
}

// enter returns a command that runs on the machine.
func (m *machine) enter(command ...string) *exec.Cmd {
	cmd := exec.Command("nsenter", append([]string{
		"--target", strconv.Itoa(m.init.Process.Pid), "--mount", "--pid", "--ipc", "--uts", "--net", "--root", "--wd=/", "--",
	}, command...)...)
	cmd.Env = []string{"PATH=" + m.path("bin") + ":/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LC_ALL=C", "KUBECONFIG=" + m.path("kubeconfig")}
	return cmd
}

// run runs a command on the machine and returns its output. The error contains the output.
func (m *machine) run(command ...string) (string, error) {
	cmd := m.enter(command...)
	var out, text bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &text
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%.200q: %w\n%s%s", command, err, out.String(), text.String())
	}
	return strings.TrimSpace(out.String()), nil
}

// serve starts a program that is to run until stop or kill. Its output is in log/NAME.
func (m *machine) serve(name string, command ...string) error {
	log, err := os.OpenFile(m.path("log", name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	s := &service{cmd: m.enter(command...), ended: make(chan struct{})}
	s.cmd.Stdout, s.cmd.Stderr = log, log
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := s.cmd.Start(); err != nil {
		return err
	}
	go func() {
		s.cmd.Wait()
		close(s.ended)
	}()
	m.services[name] = s
	return nil
}

// signal sends a signal to a service's program and waits for its end.
func (m *machine) signal(name string, signal syscall.Signal) error {
	s := m.services[name]
	if s == nil {
		return fmt.Errorf("%s does not run", name)
	}
	delete(m.services, name)
	for _, pid := range children(s.cmd.Process.Pid) {
		if err := syscall.Kill(pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
	}
	most := wait.Most(m)
	select {
	case <-s.ended:
		return nil
	case <-time.After(most):
		return fmt.Errorf("%s did not end within %v after %v", name, most, signal)
	}
}

// children returns the pids of a process's children.
func children(pid int) []int {
	return slices.DeleteFunc(proc.All(), func(p int) bool { return proc.Parent(p) != pid })
}

// check returns an error if a service has ended, with the end of its log.
func (m *machine) check() error {
	var errs []error
	for name, s := range m.services {
		select {
		case <-s.ended:
			errs = append(errs, fmt.Errorf("%s has ended: %s", name, m.tail(name)))
		default:
		}
	}
	return errors.Join(errs...)
}

// tail returns the end of a service's log.
func (m *machine) tail(name string) string {
	data, err := os.ReadFile(m.path("log", name))
	if err != nil {
		return err.Error()
	}
	return string(data[max(0, len(data)-3000):])
}

// onNetwork calls f on a thread that is in the machine's network namespace.
func (m *machine) onNetwork(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // without an unlock the thread ends with the goroutine
		network, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", m.init.Process.Pid))
		if err == nil {
			defer network.Close()
			err = unix.Setns(int(network.Fd()), unix.CLONE_NEWNET)
		}
		if err == nil {
			err = f()
		}
		done <- err
	}()
	return <-done
}

// dial connects to an address of the machine.
func (m *machine) dial(ctx context.Context, network, address string) (c net.Conn, err error) {
	err = m.onNetwork(func() error {
		c, err = (&net.Dialer{}).DialContext(ctx, network, address)
		return err
	})
	return c, err
}

// listen listens on a port of the node's address.
func (m *machine) listen(port int) (l net.Listener, err error) {
	err = m.onNetwork(func() error {
		l, err = net.Listen("tcp", net.JoinHostPort(nodeAddress, strconv.Itoa(port)))
		return err
	})
	return l, err
}
