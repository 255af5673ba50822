// Package sshserver is a real OpenSSH server on loopback for tests: the machine's sshd over a
// folder of bare repositories, for one user, who logs in with a key and may fetch and push.
//
// The protocol is sshd's own, from the handshake to the session. Every connection is counted before
// sshd gets it. Each has its own sshd in its own namespaces, so the machine is not changed (no
// account, no /run/sshd, no service). After Close no process of the server is left.
//
// It needs root, for the namespaces, and sshd: installed, or in build/tools, where `make needs`
// puts it.
package sshserver

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
)

// User is the account to log in to. It exists only in the server's namespaces and has root's uid,
// so that it can read the folders of tests that run as root.
const User = "git"

// Server serves the bare repositories of one folder. Its methods may be called concurrently.
type Server struct {
	dir     string // the repositories
	state   string // keys, configuration, scripts; removed at the end
	sshd    string
	keys    keys
	listen  net.Listener
	serving sync.WaitGroup

	mu          sync.Mutex
	connections map[net.Conn]*exec.Cmd // the command is nil until sshd runs
	closed      bool
	stats       Stats
	changed     bool // use the other host keys
	silent      bool
	log         bytes.Buffer
}

// Stats has counts since the start.
type Stats struct {
	Connections int // before authentication
	Commands    int // after authentication
}

// Start serves the bare repositories `<dir>/<repo>.git` on a free port of 127.0.0.1 until Close,
// also those that are made later.
func Start(dir string) (*Server, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("ssh server: %w", err)
	}
	sshd, err := find()
	if err != nil {
		return nil, fmt.Errorf("ssh server: %w", err)
	}
	state, err := os.MkdirTemp("", "sshserver-")
	if err != nil {
		return nil, fmt.Errorf("ssh server: %w", err)
	}
	s := &Server{dir: dir, state: state, sshd: sshd, connections: map[net.Conn]*exec.Cmd{}}
	if err := s.prepare(); err != nil {
		os.RemoveAll(state)
		return nil, fmt.Errorf("ssh server: %w", err)
	}
	if s.listen, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		os.RemoveAll(state)
		return nil, fmt.Errorf("ssh server: %w", err)
	}
	s.serving.Go(s.accept)
	return s, nil
}

// find returns the path of sshd, which must be started by its full path.
func find() (string, error) {
	if path, err := exec.LookPath("sshd"); err == nil {
		return filepath.Abs(path)
	}
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; dir != "/"; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err != nil {
			continue
		}
		path := filepath.Join(dir, "build/tools/usr/sbin/sshd")
		_, err := os.Stat(path)
		return path, err
	}
	return "", errors.New("no sshd in PATH and no module around the working directory: run make needs, and start within the module")
}

// Address returns the host and port.
func (s *Server) Address() string { return s.listen.Addr().String() }

// URL returns the URL of `<dir>/<repo>.git`, without the suffix.
func (s *Server) URL(repo string) string {
	return "ssh://" + User + "@" + s.Address() + filepath.Join(s.dir, repo)
}

// HomeURL returns the URL of the same repository relative to the user's home.
func (s *Server) HomeURL(repo string) string {
	return "ssh://" + User + "@" + s.Address() + "/~/" + repo
}

// Path returns the folder of the bare repository.
func (s *Server) Path(repo string) string { return filepath.Join(s.dir, repo+".git") }

// Stats returns the current counts.
func (s *Server) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	stats := s.stats
	// Each command writes a line before it runs. If the file is missing, no command ran.
	commands, _ := os.ReadFile(s.file("commands"))
	stats.Commands = bytes.Count(commands, []byte("\n"))
	return stats
}

// Log returns the output of sshd for all ended connections, for the message of a failed test.
func (s *Server) Log() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.String()
}

// ChangeHostKeys switches to the other pair of host keys for later connections, as in an attack by
// a man in the middle.
func (s *Server) ChangeHostKeys() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changed = !s.changed
}

// Silence sets whether later connections are accepted but never answered.
func (s *Server) Silence(silent bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.silent = silent
}

// LFS makes git-lfs-authenticate, by which clients find a repository's LFS server over ssh, return
// the URL and the Authorization header. Before that, the command is refused.
func (s *Server) LFS(url, authorization string) error {
	answer := fmt.Sprintf(`{"href":%q,"header":{"Authorization":%q}}`, url, authorization)
	return os.WriteFile(s.file("lfs.json"), []byte(answer), 0o600)
}

// Close closes all connections, kills their sshd, and returns when these have ended.
func (s *Server) Close() error {
	err := s.listen.Close()
	s.mu.Lock()
	s.closed = true
	for conn, cmd := range s.connections {
		conn.Close()
		if cmd != nil {
			cmd.Process.Kill() // kills its whole PID namespace
		}
	}
	s.mu.Unlock()
	s.serving.Wait()
	return errors.Join(err, os.RemoveAll(s.state))
}

func (s *Server) accept() {
	for {
		conn, err := s.listen.Accept()
		if err != nil {
			return // closed
		}
		s.serving.Go(func() { s.serve(conn.(*net.TCPConn)) })
	}
}

// serve runs sshd for a connection and waits for its end.
func (s *Server) serve(conn *net.TCPConn) {
	defer conn.Close()
	s.mu.Lock()
	s.stats.Connections++
	s.connections[conn] = nil
	silent, closed := s.silent, s.closed
	keys := "host"
	if s.changed {
		keys = "changed"
	}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.connections, conn)
		s.mu.Unlock()
	}()
	if closed {
		return
	}
	if silent {
		buffer := make([]byte, 512)
		for {
			if _, err := conn.Read(buffer); err != nil {
				return
			}
		}
	}

	socket, err := conn.File()
	if err != nil {
		return // the client is gone
	}
	defer socket.Close()
	conn.Close() // so that it ends with sshd, which has the only other descriptor
	var log bytes.Buffer
	cmd := exec.Command("/bin/sh", s.file("serve"), keys)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = socket, socket, &log
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID, Unshareflags: syscall.CLONE_NEWNS, Setsid: true}
	s.mu.Lock()
	err = errors.New("closed")
	if !s.closed {
		if err = cmd.Start(); err == nil {
			s.connections[conn] = cmd
		}
	}
	s.mu.Unlock()
	if err == nil {
		err = cmd.Wait()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log.Write(log.Bytes())
	if err != nil {
		fmt.Fprintf(&s.log, "sshd: %v\n", err)
	}
}

func (s *Server) file(name string) string { return filepath.Join(s.state, name) }

// quote quotes a word for the shell.
func quote(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }
