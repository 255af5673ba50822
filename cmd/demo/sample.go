package main

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"

	"github.com/helmdeck/repos/internal/gitserver"
	"github.com/helmdeck/repos/internal/volume"
)

// source is the repository and ref of the demo's volumes.
type source struct {
	repo string
	ref  string // empty for the remote's HEAD
}

// check returns the error that the plugin would return for the options. It is called before a
// command prints them, because a URL may contain a password.
func (s source) check() error {
	if _, err := volume.ParseURL(s.repo, volume.AllSchemes()); err != nil {
		return fmt.Errorf("REPO: %w", err)
	}
	if _, err := volume.ParseRef(s.ref); err != nil {
		return fmt.Errorf("REF: %w", err)
	}
	return nil
}

func (s source) refName() string {
	if s.ref == "" {
		return "HEAD, the default branch"
	}
	return s.ref
}

// options returns the driver options for the source.
func (s source) options() []string {
	options := []string{"repo=" + s.repo}
	if s.ref != "" {
		options = append(options, "ref="+s.ref)
	}
	return options
}

const (
	// sampleAddress is fixed, so that the next demo can reuse the clone. The port is not in the
	// ephemeral range.
	sampleAddress = "127.0.0.1:19418"
	sampleDir     = "build/demo" // the demo runs in the project's directory
	sampleName    = "sample-project"
	sampleFiles   = 3000
)

// sample is a generated repository, served over HTTP on loopback. It always has the same commits,
// so that the clone of an earlier demo can be reused.
type sample struct {
	source
	git  *gitserver.Server
	http *http.Server
	dir  string
}

func startSample() (*sample, error) {
	return startSampleAt(sampleDir, sampleAddress)
}

// startSampleAt makes the repository in dir, deletes the previous content of dir, and serves the
// repository.
func startSampleAt(dir, address string) (s *sample, err error) {
	s = &sample{dir: dir}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("sample repository: %w", err), s.close())
		}
	}()
	if err = os.RemoveAll(dir); err != nil { // left by a demo that was killed
		return s, err
	}
	if err = os.MkdirAll(dir, 0o755); err != nil {
		return s, err
	}
	if s.git, err = gitserver.Start(s.dir); err != nil {
		return s, err
	}
	spec := gitserver.Spec{Seed: 1, Files: sampleFiles, Commits: 20, Changes: 10, Branches: []string{"feature/x"}}
	if _, err = gitserver.Generate(s.git.Path(sampleName), spec); err != nil {
		return s, err
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		say("Another program uses %s: the sample has another address this time, so it will be cloned again.", address)
		if listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			return s, err
		}
	}
	s.http = &http.Server{Handler: s.git}
	go s.http.Serve(listener) // until close
	s.source = source{"http://" + listener.Addr().String() + "/" + sampleName, "main"}
	say("A sample of %d files and %d commits, served by a git HTTP server inside this demo. (make demo REPO=https://... for yours.)",
		spec.Files, spec.Commits+1)
	return s, nil
}

// clones returns how many clones the server has served since its start.
func (s *sample) clones() int { return s.git.Stats(sampleName).Clones }

// refRequests returns the number of requests for refs.
func (s *sample) refRequests() int { return s.git.Stats(sampleName).LsRefs }

func (s *sample) close() error {
	var errs []error
	if s.http != nil {
		errs = append(errs, s.http.Close())
	}
	if s.git != nil {
		errs = append(errs, s.git.Close())
	}
	return errors.Join(append(errs, os.RemoveAll(s.dir))...)
}
