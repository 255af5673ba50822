package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/cmd/bench/loopdisk"
	"github.com/helmdeck/repos/tests/daemon"
	"github.com/helmdeck/repos/tests/dockerd"
)

const (
	// fileBytes is the space for a file on the disk: mostly one block, and the inode.
	fileBytes = 6 << 10
	// diskBytes is the space for the journal, packs, and the data of the plugin or the engine.
	diskBytes = 2 << 30
	// diskFiles is the number of inodes for other files than those of the group's copies and
	// dirt.
	diskFiles = 50000
)

// scene is a new filesystem with the plugin on it, on which a group is measured.
type scene struct {
	*place
	root   string
	served string // the name of the repository
	disk   *loopdisk.Disk
	shared bool            // the caller closes the disk
	plugin *daemon.Daemon  // nil if the group runs an engine, or is bare
	engine *dockerd.Engine // may be nil
	far    *far            // nil if the group uses the place's server
	mounts atomic.Int64    // the number of mounts, for the mount IDs
	last   []func() error  // called before the disk is removed
}

// openScene opens a scene on a new disk or, if shared is not nil, on that disk, which the
// caller closes after the scene. It does not prepare the group.
func openScene(ctx context.Context, p *place, g group, shared *loopdisk.Disk) (*scene, error) {
	root, err := os.MkdirTemp(p.root, "scene-")
	if err != nil {
		return nil, err
	}
	s := &scene{place: p, root: root, served: cmp.Or(g.repo, repo), disk: shared, shared: shared != nil}
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
		if s.disk, err = g.newDisk(ctx, s.root, s.place, 1); err != nil {
			return err
		}
	}
	settings := g.settings
	if g.distant {
		if s.far, err = openFar(s.place.root, s.served, s.root); err != nil {
			return err
		}
		s.onClose(s.far.close)
		settings = append(slices.Clone(settings), s.far.setting())
	}
	switch {
	case g.container:
		s.engine, err = newEngine(ctx, s.disk.Dir, s.place.plugin, settings)
	case !g.bare:
		s.plugin, err = daemon.Start(ctx, daemon.Config{Program: s.program, Dir: s.root, Data: s.data(), Env: settings})
	}
	return err
}

// newDisk makes the filesystem for so many scenes of the group.
func (g group) newDisk(ctx context.Context, base string, p *place, scenes int) (*loopdisk.Disk, error) {
	inodes := int64((g.copies*p.files+g.dirt+diskFiles)*scenes) * 5 / 4 // a quarter more, or the janitor would see a full disk
	return loopdisk.New(ctx, cmp.Or(g.filesystem, loopdisk.Ext4), base, inodes, inodes*fileBytes+int64(g.copies*scenes)*p.bytes+diskBytes)
}

// close removes everything, in the reverse order of the dependencies.
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
		if err := s.disk.Close(); err != nil {
			// No RemoveAll: something may still be mounted there.
			return leftBehind(append(errs, err)...)
		}
	}
	return leftBehind(append(errs, os.RemoveAll(s.root))...)
}

// onClose adds a function to call after the plugin has ended.
func (s *scene) onClose(f func() error) { s.last = append(s.last, f) }

// explain adds the end of the plugin's or engine's log to err.
func (s *scene) explain(err error) error {
	switch {
	case s == nil:
		return err
	case s.plugin != nil:
		log := s.plugin.Log()
		return fmt.Errorf("%w\nthe plugin's log ends with:\n%s", err, log[max(0, len(log)-2000):])
	case s.engine != nil:
		return fmt.Errorf("%w\nthe engine's log ends with:\n%s", err, dockerd.Tail(s.engine.Path("log"), 20, dockerd.Relevant))
	}
	return err
}

// url returns the repository's URL.
func (s *scene) url() string {
	if s.far != nil {
		return s.far.url()
	}
	return s.server.URL(s.served)
}

// data returns a path in the plugin's data directory.
func (s *scene) data(elem ...string) string {
	return filepath.Join(append([]string{s.disk.Dir, "data"}, elem...)...)
}

// peer returns the path of a peer's directory on the disk.
func (s *scene) peer(name string) string { return filepath.Join(s.disk.Dir, name) }

// create makes a volume of the repository's main branch, with more options as alternating
// names and values. An empty value means the plugin's own default.
func (s *scene) create(ctx context.Context, name, subject string, more ...string) error {
	options := map[string]string{"repo": s.url(), "ref": "main", "subject": subject, "refresh": "always"}
	for i := 0; i+1 < len(more); i += 2 {
		options[more[i]] = more[i+1]
	}
	maps.DeleteFunc(options, func(_, value string) bool { return value == "" })
	return s.plugin.Create(ctx, name, options)
}

// lease is a mounted workspace.
type lease struct{ volume, id, dir string }

// mount mounts a volume and returns how many milliseconds the reply took.
func (s *scene) mount(ctx context.Context, name string) (l lease, took float64, err error) {
	l = lease{volume: name, id: strconv.FormatInt(s.mounts.Add(1), 10)}
	took, err = clock(func() error {
		l.dir, err = s.plugin.Mount(ctx, name, l.id)
		return err
	})
	return l, took, err
}

// unmount ends a lease and returns how many milliseconds the reply took. It fails if the
// workspace is still mounted after the reply.
func (s *scene) unmount(ctx context.Context, l lease) (took float64, err error) {
	took, err = clock(func() error { return s.plugin.Unmount(ctx, l.volume, l.id) })
	if err != nil {
		return took, err
	}
	mounted, err := s.disk.Mounted(l.dir)
	if err == nil && mounted {
		err = fmt.Errorf("%s is still mounted after Unmount has answered", l.dir)
	}
	return took, err
}

// use mounts a volume, calls look, which may be nil, with the workspace, and unmounts it.
// It returns the time of the mount.
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

// refresh sends POST /v1/refresh for the main branch of a subject's clone, which must then have
// this commit.
func (s *scene) refresh(ctx context.Context, subject, commit string) error {
	results, err := s.plugin.Admin.Refresh(ctx, api.Refresh{Repo: s.url(), Ref: "main", Subject: subject})
	if err == nil && (len(results) != 1 || results[0].Commit != commit) {
		err = fmt.Errorf("POST /v1/refresh: %+v, want %s", results, commit)
	}
	return err
}

// createAndMount makes a volume, with more options as create takes them, mounts it, and then
// unmounts it. It returns the time of the first two. The volume's name is a hash of the given one, because it must look
// as that of docker run's nameless volume, which asks the remote once for both.
func (s *scene) createAndMount(ctx context.Context, name, subject string, more ...string) (float64, error) {
	name = fmt.Sprintf("%x", sha256.Sum256([]byte(name)))
	var l lease
	took, err := clock(func() (err error) {
		if err = s.create(ctx, name, subject, append(more, "refresh", "")...); err == nil {
			l, _, err = s.mount(ctx, name)
		}
		return err
	})
	if err == nil {
		_, err = s.unmount(ctx, l)
	}
	return took, err
}

// warmUp makes the volume "warm" and uses it once, so that its clone exists.
func warmUp(ctx context.Context, s *scene) error { return s.createUsed(ctx, "warm", "warm") }

// createUsed makes a volume, with more options as create takes them, and uses it once.
func (s *scene) createUsed(ctx context.Context, name, subject string, more ...string) error {
	if err := s.create(ctx, name, subject, more...); err != nil {
		return err
	}
	_, err := s.use(ctx, name, nil)
	return err
}

// backgroundWait bounds the wait for background work.
const backgroundWait = 2 * time.Minute

// await waits until done returns true. It is for background work of the plugin.
func await(ctx context.Context, what string, done func() (bool, error)) error {
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

// settle waits until no ended workspace is left and the trash is empty.
func (s *scene) settle(ctx context.Context) error {
	return await(ctx, "the removal of workspaces", func() (bool, error) {
		for _, pattern := range []string{s.data("trash", "*"), s.data("clones", "*", "*", "workspaces", "*")} {
			if left, err := filepath.Glob(pattern); err != nil || len(left) > 0 {
				return false, err
			}
		}
		return true, nil
	})
}
