package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/helmdeck/repos/internal/gitserver"
)

// repo is the name of the one repository of a scene's server.
const repo = "sample"

const (
	// copies is how often the repository's files are checked out on the disk in
	// the end, with a few to spare: nothing is deleted before it is measured on.
	copies = 20
	// fileBytes is what a file takes on the disk: mostly one block, and its
	// inode.
	fileBytes = 6 << 10
	// diskBytes is for the journal, packs, and the dirt of one sample beside
	// what is still being deleted.
	diskBytes = 2 << 30
)

// scene is all that the rows of one number of files need.
type scene struct {
	config
	files  int
	root   string // a directory of our own, outside of the disk
	disk   *disk
	server *gitserver.Server
	plugin *plugin
	mounts int // counted for the mount IDs
}

func openScene(ctx context.Context, c config, files int) (s *scene, err error) {
	s = &scene{config: c, files: files}
	if s.root, err = os.MkdirTemp(c.base, "helmdeck-bench-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if err := os.Chmod(s.root, 0o755); err != nil { // for the uid that fetches
		return nil, err
	}
	if _, err := gitserver.Generate(filepath.Join(s.root, repo+".git"), gitserver.Spec{
		Seed: 1, Files: files, Commits: 20, Changes: 20, Branches: []string{"feature/x", "release-1.0"},
	}); err != nil {
		return nil, err
	}
	if s.server, err = gitserver.Start(s.root); err != nil {
		return nil, err
	}
	dirt := 0
	for _, n := range c.dirty {
		dirt = max(dirt, n)
	}
	inodes := int64(copies*files + 4*dirt + 50000)
	if s.disk, err = newDisk(ctx, s.root, inodes, inodes*fileBytes+diskBytes); err != nil {
		return nil, err
	}
	s.plugin, err = startPlugin(ctx, c.program, filepath.Join(s.disk.dir, "data"), s.root)
	return s, err
}

// close takes everything away, in the order in which one needs the other.
func (s *scene) close() error {
	var errs []error
	if s.plugin != nil {
		errs = append(errs, s.plugin.stop())
	}
	if s.server != nil {
		errs = append(errs, s.server.Close())
	}
	if s.disk != nil {
		if err := s.disk.close(); err != nil {
			// Not RemoveAll: something may be mounted there still.
			return errors.Join(append(errs, err)...)
		}
	}
	return errors.Join(append(errs, os.RemoveAll(s.root))...)
}

// url is the repository's.
func (s *scene) url() string { return s.server.URL(repo) }

// create makes a volume of the repository's main branch.
func (s *scene) create(ctx context.Context, name, subject string) error {
	return s.plugin.create(ctx, name, map[string]string{
		"repo": s.url(), "ref": "main", "subject": subject, "refresh": "always",
	})
}

// lease is a workspace that was mounted.
type lease struct{ volume, id, dir string }

// mount mounts a volume and says how long the answer took.
func (s *scene) mount(ctx context.Context, name string) (l lease, took time.Duration, err error) {
	s.mounts++
	l = lease{volume: name, id: strconv.Itoa(s.mounts)}
	took, err = clock(func() error {
		l.dir, err = s.plugin.mount(ctx, name, l.id)
		return err
	})
	return l, took, err
}

// unmount ends a lease and says how long the answer took. A mount that is there
// still after the answer is an error.
func (s *scene) unmount(ctx context.Context, l lease) (took time.Duration, err error) {
	took, err = clock(func() error { return s.plugin.unmount(ctx, l.volume, l.id) })
	if err != nil {
		return took, err
	}
	mounted, err := s.disk.mounted(l.dir)
	if err == nil && mounted {
		err = fmt.Errorf("%s is mounted after Unmount has answered", l.dir)
	}
	return took, err
}

// peer is the path of a peer's directory on the disk.
func (s *scene) peer(name string) string { return filepath.Join(s.disk.dir, name) }

// litter writes new files of 1 KB below dir, 100 to a directory, as an
// installation of packages does.
func litter(ctx context.Context, dir string, files int) error {
	const perDir = 100
	content := make([]byte, 1<<10)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(4)
	for first := 0; first < files; first += perDir {
		g.Go(func() error {
			sub := filepath.Join(dir, "new", strconv.Itoa(first/perDir))
			if err := os.MkdirAll(sub, 0o755); err != nil {
				return err
			}
			for i := first; i < min(first+perDir, files) && ctx.Err() == nil; i++ {
				if err := os.WriteFile(filepath.Join(sub, strconv.Itoa(i)), content, 0o644); err != nil {
					return err
				}
			}
			return context.Cause(ctx)
		})
	}
	return g.Wait()
}
