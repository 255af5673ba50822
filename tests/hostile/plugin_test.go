package hostile

import (
	"bytes"
	"cmp"
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
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/overlay"
)

// plugin is the real program on a filesystem of its own.
type plugin struct {
	dir    string // holds the socket, the log and the mounted filesystem
	socket string
	cmd    *exec.Cmd
	exited chan error
	client *http.Client
}

// data is a path of the plugin's data.
func (p *plugin) data(elem ...string) string {
	return filepath.Join(append([]string{p.dir, "disk", "data"}, elem...)...)
}

// startPlugin starts the program on a fresh filesystem below dir.
func startPlugin(dir string, bytes, files int64) (*plugin, error) {
	git, err := exec.LookPath("git")
	if err != nil {
		return nil, err
	}
	p := &plugin{dir: dir, socket: filepath.Join(dir, "repos.sock"), exited: make(chan error, 1)}
	if err := os.Mkdir(filepath.Join(dir, "disk"), 0o755); err != nil {
		return p, err
	}
	if err := newDisk(filepath.Join(dir, "disk"), bytes, files); err != nil {
		return p, err
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return p, err
	}
	defer log.Close()
	program := cmp.Or(os.Getenv("HELMDECK_REPOS"), "../../build/helmdeck-repos")
	cmd := exec.Command(program, "-data", p.data(), "-socket", p.socket, "-git", git)
	cmd.Env = []string{"HOME=/", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LOG_LEVEL=debug", "MOUNT_WAIT=45s"}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return p, fmt.Errorf("%w (make build makes it)", err)
	}
	p.cmd = cmd
	go func() { p.exited <- cmd.Wait() }()
	p.client = &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", p.socket)
		},
	}}
	if err := poll(p.alive); err != nil {
		return p, fmt.Errorf("the plugin does not answer: %w: %s", err, p.log())
	}
	return p, nil
}

func (p *plugin) log() string {
	log, err := os.ReadFile(filepath.Join(p.dir, "log"))
	if err != nil {
		return err.Error()
	}
	return string(log)
}

// alive says what is wrong with the plugin: the process that was started is gone, or does not answer.
func (p *plugin) alive() error {
	select {
	case err := <-p.exited:
		p.exited <- err
		return fmt.Errorf("the plugin has ended: %v", err)
	default:
	}
	_, err := p.call("Plugin.Activate", nil)
	return err
}

// call does what the engine does. The error is the answer's; what was answered is returned in any case.
func (p *plugin) call(method string, request any) (map[string]any, error) {
	body := new(bytes.Buffer)
	if request != nil {
		if err := json.NewEncoder(body).Encode(request); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://plugin/"+method, body)
	if err != nil {
		return nil, err
	}
	resp, err := p.client.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	var answer map[string]any
	if err := json.Unmarshal(data, &answer); err != nil {
		return nil, fmt.Errorf("%s: answer %.200q: %w", method, data, err)
	}
	if text, ok := answer["Err"].(string); ok && text != "" {
		return answer, errors.New(text)
	}
	return answer, nil
}

// children are the processes that the plugin has started and that are still there.
func (p *plugin) children() ([]string, error) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	var left []string
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		// The name is in parentheses and may hold any character.
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if fields[1] == fmt.Sprint(p.cmd.Process.Pid) {
			line, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
			left = append(left, string(bytes.ReplaceAll(line, []byte{0}, []byte(" "))))
		}
	}
	return left, nil
}

// close waits until everything is cleaned up, ends the plugin as an engine does, and takes its filesystem away.
func (p *plugin) close() error {
	var errs []error
	if p.client != nil {
		errs = append(errs, poll(func() error {
			left, err := p.children()
			if len(left) > 0 {
				err = fmt.Errorf("the plugin still has children: %q", left)
			}
			entries, readErr := os.ReadDir(p.data("trash"))
			if len(entries) > 0 {
				err = errors.Join(err, fmt.Errorf("%d entries are still in the trash, such as %s", len(entries), entries[0]))
			}
			return errors.Join(err, readErr)
		}))
	}
	if p.cmd != nil {
		if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
			errs = append(errs, err)
		}
		select {
		case err := <-p.exited:
			errs = append(errs, err)
		case <-time.After(patience):
			errs = append(errs, errors.New("the plugin does not stop"), p.cmd.Process.Kill())
			<-p.exited
		}
	}
	disk := filepath.Join(p.dir, "disk")
	points, err := overlay.Mounts(disk)
	errs = append(errs, err)
	for _, point := range points {
		if point.Path != disk {
			errs = append(errs, fmt.Errorf("%s is still mounted", point.Path), unix.Unmount(point.Path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW))
		}
	}
	if !slices.ContainsFunc(points, func(p overlay.Point) bool { return p.Path == disk }) {
		return errors.Join(errs...) // it never came so far
	}
	// Not detached: what still uses it is a process that somebody has left behind.
	if err := poll(func() error { return unix.Unmount(disk, unix.UMOUNT_NOFOLLOW) }); err != nil {
		errs = append(errs, fmt.Errorf("unmount %s: %w", disk, err), unix.Unmount(disk, unix.MNT_DETACH))
	}
	return errors.Join(errs...)
}
