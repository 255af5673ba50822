package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/helmdeck/repos/tests/daemon"
	"github.com/helmdeck/repos/tests/dockerd"
)

const (
	// fileBytes is what a file takes on the disk: mostly one block, and its
	// inode.
	fileBytes = 6 << 10
	// diskBytes is for the journal, packs, and what the plugin or an engine keeps
	// for itself.
	diskBytes = 2 << 30
	// diskFiles is for what is neither the repository's nor dirt.
	diskFiles = 50000
)

// scene is a fresh filesystem, with the plugin on it, where a group is measured.
type scene struct {
	*place
	root   string
	disk   *disk
	shared bool            // the disk is another's, who closes it
	plugin *daemon.Daemon  // nil where the group has an engine, or nothing
	engine *dockerd.Engine // nil where it has none
	mounts atomic.Int64    // counted for the mount IDs
	last   []func() error  // what is done before the disk goes
}

// openScene opens a scene on a disk of its own, or on shared, which the caller
// closes after the scene. It prepares nothing.
func openScene(ctx context.Context, p *place, g group, shared *disk) (*scene, error) {
	root, err := os.MkdirTemp(p.root, "scene-")
	if err != nil {
		return nil, err
	}
	s := &scene{place: p, root: root, disk: shared, shared: shared != nil}
	if err := s.open(ctx, g); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *scene) open(ctx context.Context, g group) error {
	err := os.Chmod(s.root, 0o755)
	if err != nil {
		return err
	}
	if s.disk == nil {
		if s.disk, err = g.newDisk(ctx, s.root, s.files, 1); err != nil {
			return err
		}
	}
	switch {
	case g.container:
		s.engine, err = newEngine(s.disk.dir, s.place.plugin, g.settings)
	case !g.bare:
		s.plugin, err = daemon.Start(daemon.Config{Program: s.program, Dir: s.root, Data: s.data(), Env: g.settings})
	}
	return err
}

// newDisk makes the filesystem for so many scenes of the group.
func (g group) newDisk(ctx context.Context, base string, files, scenes int) (*disk, error) {
	inodes := int64((g.copies*files+g.dirt+diskFiles)*scenes) * 5 / 4 // or the janitor would see a full disk
	return newDisk(ctx, base, inodes, inodes*fileBytes+diskBytes)
}

// close takes everything away, in the order in which one needs the other.
func (s *scene) close() error {
	if s == nil {
		return nil
	}
	var errs []error
	if s.plugin != nil {
		errs = append(errs, s.plugin.Stop())
	}
	if s.engine != nil {
		errs = append(errs, s.engine.End())
	}
	for _, f := range s.last {
		errs = append(errs, f())
	}
	if s.disk != nil && !s.shared {
		if err := s.disk.close(); err != nil {
			// Not RemoveAll: something may be mounted there still.
			return leftBehind(append(errs, err)...)
		}
	}
	return leftBehind(append(errs, os.RemoveAll(s.root))...)
}

// onClose has something done when the plugin has ended.
func (s *scene) onClose(f func() error) { s.last = append(s.last, f) }

// explain adds what the plugin or the engine has logged.
func (s *scene) explain(err error) error {
	switch {
	case s == nil:
		return err
	case s.plugin != nil:
		log := s.plugin.Log()
		return fmt.Errorf("%w\nthe plugin's log ends with:\n%s", err, log[max(0, len(log)-2000):])
	case s.engine != nil:
		return fmt.Errorf("%w\nthe engine's log ends with:\n%s", err, dockerd.Tail(s.engine.Path("log"), 20, dockerd.Telling))
	}
	return err
}

// data is a path of the plugin's data.
func (s *scene) data(elem ...string) string {
	return filepath.Join(append([]string{s.disk.dir, "data"}, elem...)...)
}

// peer is the path of a peer's directory on the disk.
func (s *scene) peer(name string) string { return filepath.Join(s.disk.dir, name) }

// create makes a volume of the repository's main branch, with more options as
// name and value in turns.
func (s *scene) create(ctx context.Context, name, subject string, more ...string) error {
	options := map[string]string{"repo": s.url(), "ref": "main", "subject": subject, "refresh": "always"}
	for i := 0; i+1 < len(more); i += 2 {
		options[more[i]] = more[i+1]
	}
	return s.plugin.Create(ctx, name, options)
}

// lease is a workspace that was mounted.
type lease struct{ volume, id, dir string }

// mount mounts a volume and says how many milliseconds the answer took.
func (s *scene) mount(ctx context.Context, name string) (l lease, took float64, err error) {
	l = lease{volume: name, id: strconv.FormatInt(s.mounts.Add(1), 10)}
	took, err = clock(func() error {
		l.dir, err = s.plugin.Mount(ctx, name, l.id)
		return err
	})
	return l, took, err
}

// unmount ends a lease and says how many milliseconds the answer took. A mount
// that is there still after the answer is an error.
func (s *scene) unmount(ctx context.Context, l lease) (took float64, err error) {
	took, err = clock(func() error { return s.plugin.Unmount(ctx, l.volume, l.id) })
	if err != nil {
		return took, err
	}
	mounted, err := s.disk.mounted(l.dir)
	if err == nil && mounted {
		err = fmt.Errorf("%s is mounted after Unmount has answered", l.dir)
	}
	return took, err
}

// use mounts a volume, shows the workspace to look, which may be nil, and ends
// it. It returns what the mount took.
func (s *scene) use(ctx context.Context, name string, look func(dir string) error) (float64, error) {
	l, took, err := s.mount(ctx, name)
	if err != nil {
		return 0, err
	}
	if look != nil {
		err = look(l.dir)
	}
	_, unmountErr := s.unmount(ctx, l)
	return took, errors.Join(err, unmountErr)
}

// warmUp makes the volume "warm" and uses it once, so that its clone is there.
func warmUp(ctx context.Context, s *scene) error {
	if err := s.create(ctx, "warm", "warm"); err != nil {
		return err
	}
	_, err := s.use(ctx, "warm", nil)
	return err
}

// backgroundWait bounds what the plugin does after it has answered.
const backgroundWait = 2 * time.Minute

// until waits for something that the plugin does in the background.
func until(ctx context.Context, what string, done func() (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, backgroundWait, fmt.Errorf("%s: not within %v", what, backgroundWait))
	defer cancel()
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// settled waits until no ended workspace is left, and nothing in the trash.
func (s *scene) settled(ctx context.Context) error {
	return until(ctx, "the removal of workspaces", func() (bool, error) {
		for _, pattern := range []string{s.data("trash", "*"), s.data("clones", "*", "*", "workspaces", "*")} {
			if left, err := filepath.Glob(pattern); err != nil || len(left) > 0 {
				return false, err
			}
		}
		return true, nil
	})
}
