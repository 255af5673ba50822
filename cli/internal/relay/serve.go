package relay

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/hashicorp/yamux"
)

const (
	// program is the name of the binary in the image, and what makes it a relay.
	program = "helmdeck-relay"
	// socketDir is where the container has the directory of the plugin's sockets.
	socketDir = "/run/helmdeck"
	socket    = socketDir + "/admin.sock"
)

const (
	// maxStreams bounds the connections of one relay. A command uses a few.
	maxStreams = 64
	// keepAlive is how often each side checks that the other one still answers. A relay whose caller
	// is unreachable ends, and the engine removes it.
	keepAlive = 30 * time.Second
	// maxSilence is how long a write, or the answer to a check, may take.
	maxSilence = 30 * time.Second
	// abandoned is how long the caller's side of a closed connection waits for the other side to end
	// too. The relay's side waits longer, because its caller may still read.
	abandoned = 10 * time.Second
)

// Each connection begins with a line of the relay: connected, or the reason why not.
const connected = "ok"

// maxReason bounds that line.
const maxReason = 1 << 10

// Serve serves as a relay and does not return, if this process was started as one. Call it first in
// main.
func Serve() {
	if filepath.Base(os.Args[0]) != program {
		return
	}
	if err := serve(stdio{}, func() (net.Conn, error) { return net.Dial("unix", socket) }); err != nil {
		fmt.Fprintln(os.Stderr, "relay:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// stdio is the stream to the caller.
type stdio struct{}

func (stdio) Read(p []byte) (int, error)  { return os.Stdin.Read(p) }
func (stdio) Write(p []byte) (int, error) { return os.Stdout.Write(p) }
func (stdio) Close() error                { return errors.Join(os.Stdin.Close(), os.Stdout.Close()) }

// serve connects each stream in caller to a socket, until caller ends.
func serve(caller io.ReadWriteCloser, dial func() (net.Conn, error)) error {
	set := config()
	set.LogOutput = os.Stderr
	session, err := yamux.Server(caller, set)
	if err != nil {
		return err
	}
	defer session.Close()
	slots := make(chan struct{}, maxStreams)
	for {
		stream, err := session.AcceptStream()
		if err != nil {
			return nil // the caller has ended, in whatever way
		}
		select {
		case slots <- struct{}{}:
		default:
			refuse(stream, fmt.Errorf("the relay has %d connections already", maxStreams))
			continue
		}
		go func() {
			defer func() { <-slots }()
			target, err := dial()
			if err != nil {
				refuse(stream, err)
				return
			}
			join(stream, target)
		}()
	}
}

// config returns the configuration of both sides.
func config() *yamux.Config {
	c := yamux.DefaultConfig()
	c.KeepAliveInterval, c.ConnectionWriteTimeout = keepAlive, maxSilence
	c.LogOutput = io.Discard
	return c
}

// refuse ends a stream with the reason.
func refuse(stream net.Conn, why error) {
	text := strings.ReplaceAll(why.Error(), "\n", " ")
	fmt.Fprintln(stream, text[:min(len(text), maxReason-1)])
	stream.Close()
}

// join copies between a stream and the socket in both directions until either ends. Then it closes both:
// a caller that has closed its side has gone, and the plugin must see that, because it ends the work on
// the request.
func join(stream, target net.Conn) {
	end := func() { target.Close(); stream.Close() }
	defer end()
	if _, err := fmt.Fprintln(stream, connected); err != nil {
		return
	}
	go func() {
		defer end()
		io.Copy(target, stream)
	}()
	io.Copy(stream, target)
}

// greeted is a connection whose greeting was read.
type greeted struct {
	net.Conn
	rest *bufio.Reader
}

func (g *greeted) Read(p []byte) (int, error) { return g.rest.Read(p) }

// greet reads the first line of a stream.
func greet(stream net.Conn) (net.Conn, error) {
	r := bufio.NewReaderSize(stream, maxReason)
	line, err := r.ReadSlice('\n')
	switch text := strings.TrimSuffix(string(line), "\n"); {
	case err != nil:
		return nil, fmt.Errorf("the relay does not answer: %w", err)
	case text != connected:
		return nil, fmt.Errorf("the relay can't connect to the plugin: %q", text)
	}
	return &greeted{stream, r}, nil
}
