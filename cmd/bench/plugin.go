package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/docker/go-plugins-helpers/volume"
)

const (
	// startWait is how long the engine waits for a plugin's socket.
	startWait = 9 * time.Second
	// stopWait is how long the engine waits after TERM.
	stopWait = 10 * time.Second
)

// plugin is the plugin's program as a child process, and a client of its socket.
type plugin struct {
	cmd    *exec.Cmd
	ended  chan error
	log    string // the file that it writes to
	client *http.Client
}

// startPlugin starts the program with its data in data, its socket and its log in
// dir, and returns when it answers.
func startPlugin(ctx context.Context, program, data, dir string) (*plugin, error) {
	git, err := exec.LookPath("git")
	if err != nil {
		return nil, err
	}
	p := &plugin{ended: make(chan error, 1), log: filepath.Join(dir, "plugin.log")}
	socket := filepath.Join(dir, "repos.sock")
	p.client = &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", socket)
		},
	}}
	log, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	// Not CommandContext: it is ended by stop, in order. And in a process group
	// of its own, for a terminal's SIGINT is not for it.
	p.cmd = exec.Command(program, "-data", data, "-socket", socket, "-git", git)
	p.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/"}
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the plugin (make build makes it): %w", err)
	}
	go func() { p.ended <- p.cmd.Wait() }()
	for deadline := time.Now().Add(startWait); ; time.Sleep(5 * time.Millisecond) {
		err := p.call(ctx, "Plugin.Activate", nil, nil)
		if err == nil {
			return p, nil
		}
		if len(p.ended) > 0 || ctx.Err() != nil || time.Now().After(deadline) {
			return nil, errors.Join(fmt.Errorf("the plugin does not answer: %w\n%s", err, p.logTail()), p.stop())
		}
	}
}

// stop ends the program, which leaves workspaces mounted. One that had ended
// before is an error.
func (p *plugin) stop() error {
	p.client.CloseIdleConnections()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		if err := <-p.ended; err != nil {
			return fmt.Errorf("the plugin had ended: %w", err)
		}
		return errors.New("the plugin had ended")
	}
	select {
	case err := <-p.ended:
		return err
	case <-time.After(stopWait):
		return errors.Join(fmt.Errorf("the plugin did not end within %v after TERM", stopWait), p.cmd.Process.Kill(), <-p.ended)
	}
}

// logTail is the end of what the plugin logged.
func (p *plugin) logTail() string {
	data, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(data[max(0, len(data)-2000):])
}

func (p *plugin) create(ctx context.Context, name string, options map[string]string) error {
	return p.call(ctx, "VolumeDriver.Create", volume.CreateRequest{Name: name, Options: options}, nil)
}

func (p *plugin) mount(ctx context.Context, name, id string) (dir string, err error) {
	var a volume.MountResponse
	err = p.call(ctx, "VolumeDriver.Mount", volume.MountRequest{Name: name, ID: id}, &a)
	return a.Mountpoint, err
}

func (p *plugin) unmount(ctx context.Context, name, id string) error {
	return p.call(ctx, "VolumeDriver.Unmount", volume.UnmountRequest{Name: name, ID: id}, nil)
}

// call does what the engine does. The error is the answer's.
func (p *plugin) call(ctx context.Context, method string, request, answer any) error {
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, "POST", "http://plugin/"+method, bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := p.client.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		var e volume.ErrorResponse
		if err := json.Unmarshal(data, &e); err != nil {
			return fmt.Errorf("%s: status %d: %s", method, resp.StatusCode, data)
		}
		return fmt.Errorf("%s: %s", method, e.Err)
	}
	if answer == nil {
		return nil
	}
	return json.Unmarshal(data, answer)
}
