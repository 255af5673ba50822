package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/helmdeck/repos/internal/git/gitserver"
)

// Names of repositories on a place's server. All groups but history use repo. A warm Mount must not
// depend on the number of files, so it is compared with one of smallRepo, which has smallFiles.
const (
	repo       = "sample"
	smallRepo  = "small"
	smallFiles = 1000
)

// place is shared by all groups with one number of files.
type place struct {
	config
	column
	bytes  int64    // the size of a real repository's packs
	ahead  []string // the commits that are pushed to a real repository
	root   string   // a temporary directory
	server *gitserver.Server
}

// openPlace generates or copies the repository, with history, and serves it.
func openPlace(ctx context.Context, c config, at column) (*place, error) {
	root, err := os.MkdirTemp(c.base, "helmdeck-bench-")
	if err != nil {
		return nil, err
	}
	p := &place{config: c, column: at, root: root}
	if err := p.open(ctx); err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}

func (p *place) open(ctx context.Context) error {
	err := os.Chmod(p.root, 0o755) // the uid that fetches must enter it
	if err == nil && p.repo != "" {
		err = p.copyReal(ctx)
	} else if err == nil {
		err = p.generate()
	}
	if err == nil {
		p.server, err = gitserver.Start(p.root)
	}
	return err
}

func (p *place) generate() error {
	spec := gitserver.Spec{Seed: 1, Files: p.files, Commits: 20, Changes: 20, Branches: []string{"feature/x", "release-1.0"}}
	_, err := gitserver.Generate(filepath.Join(p.root, repo+".git"), spec)
	if err == nil {
		spec.Files = smallFiles
		_, err = gitserver.Generate(filepath.Join(p.root, smallRepo+".git"), spec)
	}
	return err
}

// close removes everything, but not the files that a scene failed to remove.
func (p *place) close() error {
	var err error
	if p.server != nil {
		err = p.server.Close()
	}
	left, globErr := filepath.Glob(filepath.Join(p.root, "scene-*"))
	if err = errors.Join(err, globErr); err != nil || len(left) > 0 {
		return leftBehind(err) // no RemoveAll: something may still be mounted there
	}
	return leftBehind(os.RemoveAll(p.root))
}

// leftError means that something could not be removed.
type leftError struct{ error }

func leftBehind(errs ...error) error {
	if err := errors.Join(errs...); err != nil {
		return leftError{err}
	}
	return nil
}
