package hostile

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/overlay"
	"github.com/helmdeck/repos/tests/daemon"
	"github.com/helmdeck/repos/tests/proc"
	"github.com/helmdeck/repos/tests/testdir"
	"github.com/helmdeck/repos/tests/testdisk"
	"github.com/helmdeck/repos/tests/wait"
)

// plugin is the real program with its own filesystem.
type plugin struct {
	dir string // the directory of the sockets, the log and the mounted filesystem
	*daemon.Daemon
}

// data returns a path in the plugin's data directory.
func (p *plugin) data(elem ...string) string {
	return filepath.Join(append([]string{p.dir, "disk", "data"}, elem...)...)
}

// startPlugin starts the program on a new filesystem below dir, with so many bytes and inodes, and
// with a LOG_FORMAT.
func startPlugin(dir string, bytes, files int64, format string) (*plugin, error) {
	p := &plugin{dir: dir}
	err := testdisk.Ext4(filepath.Join(dir, "disk"), bytes, "-N", fmt.Sprint(files))
	if err != nil {
		return p, err
	}
	p.Daemon, err = daemon.Start(context.Background(), daemon.Config{
		Program: cmp.Or(os.Getenv("HELMDECK_REPOS"), "../../build/helmdeck-repos"), // make build makes it
		Dir:     dir, Data: p.data(), Env: []string{"LOG_LEVEL=debug", "MOUNT_WAIT=45s", "PUSH_MAX_SIZE=64MiB", "METRICS_SUBJECTS=true", "LOG_FORMAT=" + format},
	})
	return p, err
}

// alive returns an error if the plugin's process has ended or does not answer.
func (p *plugin) alive() error {
	select {
	case <-p.Ended():
		return fmt.Errorf("the plugin has ended: %v", p.Err())
	default:
	}
	_, err := p.call("Plugin.Activate", nil)
	return err
}

// call calls a method as the engine does. If the plugin answers an error, call returns both the
// answer and the error.
func (p *plugin) call(method string, request any) (map[string]any, error) {
	ctx, cancel := context.WithTimeout(context.Background(), wait.Most(p.Limit))
	defer cancel()
	var answer map[string]any
	err := p.Call(ctx, method, request, &answer)
	if daemon.IsRefused(err) {
		answer = map[string]any{"Err": err.Error()}
	}
	return answer, err
}

// operator sends a request of an operator, who claims a name, and returns its status and answer.
func (p *plugin) operator(method, path, claim, body string) (status int, answer []byte, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), wait.Most(p.Limit))
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, "http://plugin"+path, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	r.Header.Set(api.ClaimHeader, claim)
	resp, err := daemon.Dial(filepath.Join(filepath.Dir(p.Socket()), "admin.sock")).Client.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	answer, err = io.ReadAll(resp.Body)
	return resp.StatusCode, answer, err
}

// children returns the command lines of the plugin's living descendants.
func (p *plugin) children() (lines []string) {
	for _, pid := range proc.Descendants(p.Pid()) {
		if args, err := proc.Args(pid); err == nil {
			lines = append(lines, strings.Join(args, " "))
		}
	}
	return lines
}

// unprintable returns an error if a log of the plugin, or its metrics, has a character that is not
// printable, after all that the attacks put into names, options, messages and headers.
func (p *plugin) unprintable() error {
	_, metrics, err := p.operator(http.MethodGet, "/metrics", "", "")
	errs := []error{err}
	texts := map[string][]byte{"the log": []byte(p.Log()), "the metrics": metrics}
	files, err := filepath.Glob(p.data("audit", "*"))
	errs = append(errs, err)
	for _, file := range files {
		texts[file], err = os.ReadFile(file)
		errs = append(errs, err)
	}
	for name, text := range texts {
		for line := range bytes.Lines(text) {
			line = bytes.TrimSuffix(line, []byte("\n"))
			if bad := bytes.IndexFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }); bad >= 0 || !utf8.Valid(line) {
				errs = append(errs, fmt.Errorf("%s has a character that is not printable: %.300q", name, line[max(0, bad-100):]))
				break
			}
		}
	}
	return errors.Join(errs...)
}

// close waits until the plugin has cleaned up, ends it as an engine does, and unmounts its
// filesystem.
func (p *plugin) close() error {
	var errs []error
	if p.Daemon != nil {
		errs = append(errs, p.AwaitEmptyTrash(), wait.Until(p.Limit, func() error {
			if left := p.children(); len(left) > 0 {
				return fmt.Errorf("the plugin still has children: %q", left)
			}
			if left, err := os.ReadDir(p.data("quarantine")); err != nil || len(left) > 0 {
				return fmt.Errorf("left of those who looked: %v, %v", left, err)
			}
			return nil
		}), p.unprintable(), p.Stop())
	}
	disk := filepath.Join(p.dir, "disk")
	points, err := testdir.Mounts(disk)
	errs = append(errs, err)
	for _, point := range points {
		if point.Path != disk {
			errs = append(errs, fmt.Errorf("%s is still mounted", point.Path))
		}
	}
	if !slices.ContainsFunc(points, func(p overlay.Point) bool { return p.Path == disk }) {
		return errors.Join(errs...) // the disk was never mounted
	}
	return errors.Join(append(errs, testdisk.Eject(context.Background(), disk))...)
}
