package main

import (
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"

	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/internal/git/gitserver/distance"
)

// far is a git server with TLS, HTTP/1.1 and HTTP/2 behind a link that adds distance. It serves one
// of a place's repositories.
type far struct {
	repo   string
	server *gitserver.Server
	link   *distance.Link
	ca     string // a file with the certificate of the server's authority
}

// openFar serves a repository in a directory. It writes the file into dir.
func openFar(repositories, repo, dir string) (f *far, err error) {
	f = &far{repo: repo, ca: filepath.Join(dir, "ca.pem")}
	if f.server, err = gitserver.StartHTTP2(repositories); err != nil {
		return nil, err
	}
	if f.link, err = distance.New(f.server.Addr()); err == nil {
		err = os.WriteFile(f.ca, f.server.CA(), 0o644)
	}
	if err != nil {
		return nil, errors.Join(err, f.close())
	}
	return f, nil
}

func (f *far) close() error {
	var err error
	if f.link != nil {
		err = f.link.Close()
	}
	return errors.Join(err, f.server.Close())
}

// url returns the repository's URL at the link.
func (f *far) url() string { return "https://" + f.link.Addr() + "/" + f.repo }

// setting returns the plugin's setting that makes it trust the server.
func (f *far) setting() string {
	return "CA_BUNDLE=" + base64.StdEncoding.EncodeToString(f.server.CA())
}

// trust returns the variable of git's configuration that makes it trust the server, as NAME=value.
func (f *far) trust() string { return "http.sslCAInfo=" + f.ca }

// The kinds of traffic that are counted.
const (
	questions   = "questions"
	infoRefs    = "info/refs"
	connections = "connections"
	handshakes  = "TLS handshakes"
)

// traffic counts the requests and connections that have reached the server, by kind.
func (f *far) traffic() map[string]int {
	stats := f.server.Stats(f.repo)
	return map[string]int{
		questions: stats.LsRefs, infoRefs: stats.Infos, connections: f.link.Connections(), handshakes: f.server.Handshakes(),
	}
}
