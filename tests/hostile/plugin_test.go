package hostile

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/helmdeck/repos/internal/overlay"
	"github.com/helmdeck/repos/tests/daemon"
	"github.com/helmdeck/repos/tests/testdir"
	"github.com/helmdeck/repos/tests/testdisk"
)

// plugin is the real program on a filesystem of its own.
type plugin struct {
	dir string // holds the sockets, the log and the mounted filesystem
	*daemon.Daemon
}

// data is a path of the plugin's data.
func (p *plugin) data(elem ...string) string {
	return filepath.Join(append([]string{p.dir, "disk", "data"}, elem...)...)
}

// startPlugin starts the program on a fresh filesystem below dir.
func startPlugin(dir string, bytes, files int64) (*plugin, error) {
	p := &plugin{dir: dir}
	err := testdisk.Ext4(filepath.Join(dir, "disk"), bytes, "-N", fmt.Sprint(files))
	if err != nil {
		return p, err
	}
	p.Daemon, err = daemon.Start(daemon.Config{
		Program: cmp.Or(os.Getenv("HELMDECK_REPOS"), "../../build/helmdeck-repos"), // make build makes it
		Dir:     dir, Data: p.data(), Env: []string{"LOG_LEVEL=debug", "MOUNT_WAIT=45s"},
	})
	return p, err
}

// alive says what is wrong with the plugin: the process that was started is gone, or does not answer.
func (p *plugin) alive() error {
	select {
	case <-p.Ended():
		return fmt.Errorf("the plugin has ended: %v", p.Err())
	default:
	}
	_, err := p.call("Plugin.Activate", nil)
	return err
}

// call does what the engine does. The error is the answer's; what was answered is returned in any case.
func (p *plugin) call(method string, request any) (map[string]any, error) {
	ctx, cancel := context.WithTimeout(context.Background(), daemon.Patience)
	defer cancel()
	var answer map[string]any
	err := p.Call(ctx, method, request, &answer)
	if daemon.IsRefused(err) {
		answer = map[string]any{"Err": err.Error()}
	}
	return answer, err
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
		if fields[1] == fmt.Sprint(p.Pid()) {
			line, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
			left = append(left, string(bytes.ReplaceAll(line, []byte{0}, []byte(" "))))
		}
	}
	return left, nil
}

// close waits until everything is cleaned up, ends the plugin as an engine does, and takes its filesystem away.
func (p *plugin) close() error {
	var errs []error
	if p.Daemon != nil {
		errs = append(errs, p.EmptyTrash(), daemon.Poll(func() error {
			left, err := p.children()
			if len(left) > 0 {
				err = fmt.Errorf("the plugin still has children: %q", left)
			}
			return err
		}), p.Stop())
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
		return errors.Join(errs...) // it never came so far
	}
	return errors.Join(append(errs, testdisk.Eject(disk))...)
}
