package relay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/user"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/yamux"
	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/client"

	"github.com/helmdeck/repos/cli/internal/dial"
)

const (
	// cleanUp bounds the removal of a container and an image, also after an interrupt.
	cleanUp = 30 * time.Second
	// startUp bounds the wait for a container that was started.
	startUp = 30 * time.Second
)

var pluginID = regexp.MustCompile(`^[0-9a-f]{64}$`)

// relay is a running relay. It implements dial.Way.
type relay struct {
	engine  client.APIClient
	image   string // ID; empty before the import
	id      string // of the container; empty before it is created
	stream  *client.HijackedResponse
	session *yamux.Session
	said    *tail // the relay's stderr

	closing sync.Once
	failed  error
}

// Open starts a relay to the admin socket of the plugin with an ID. It is a dial.Relay.
func Open(ctx context.Context, engine client.APIClient, plugin string) (dial.Way, error) {
	return open(ctx, engine, plugin, binary)
}

// open is Open with a function that opens the binary for an engine.
func open(ctx context.Context, engine client.APIClient, plugin string, find func(engine, self platform) (*os.File, error)) (dial.Way, error) {
	if !pluginID.MatchString(plugin) { // it becomes a path on the engine's machine
		return nil, fmt.Errorf("the engine answers with the plugin ID %.80q, which is none", plugin)
	}
	r := &relay{engine: engine, said: &tail{}}
	if err := r.start(ctx, plugin, find); err != nil {
		err = fmt.Errorf("reach the plugin through the engine: %w", err)
		if said := r.said.String(); said != "" {
			err = fmt.Errorf("%w (the relay says %q)", err, said)
		}
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// start makes all parts of the relay. After an error the caller closes it.
func (r *relay) start(ctx context.Context, plugin string, find func(engine, self platform) (*os.File, error)) error {
	version, err := r.engine.ServerVersion(ctx, client.ServerVersionOptions{})
	if err != nil {
		return err
	}
	info, err := r.engine.Info(ctx, client.InfoOptions{})
	if err != nil {
		return err
	}
	p := platform{version.Os, version.Arch}
	file, err := find(p, platform{runtime.GOOS, runtime.GOARCH})
	if err != nil {
		return err
	}
	defer file.Close()
	sweep(ctx, r.engine, info.Info)
	if r.image, err = load(ctx, r.engine, file, p); err != nil {
		return fmt.Errorf("import the relay: %w", err)
	}
	made, err := r.engine.ContainerCreate(ctx, client.ContainerCreateOptions{Config: settings(r.image), HostConfig: confinement(plugin, info.Info)})
	if err != nil {
		return fmt.Errorf("make the relay: %w", err)
	}
	r.id = made.ID
	stream, err := r.engine.ContainerAttach(ctx, r.id, client.ContainerAttachOptions{Stream: true, Stdin: true, Stdout: true, Stderr: true})
	if err != nil {
		return fmt.Errorf("attach to the relay: %w", err)
	}
	r.stream = &stream.HijackedResponse
	if _, err := r.engine.ContainerStart(ctx, r.id, client.ContainerStartOptions{}); err != nil {
		return fmt.Errorf("start the relay: %w", err)
	}
	return r.shake(ctx)
}

// shake waits until the relay answers.
func (r *relay) shake(ctx context.Context) error {
	out, in := io.Pipe()
	go func() {
		_, err := stdcopy.StdCopy(in, r.said, r.stream.Reader)
		in.CloseWithError(err) // nil is the end of the stream
	}()
	set := config()
	set.StreamCloseTimeout = abandoned
	session, err := yamux.Client(&attached{out, r.stream}, set)
	if err != nil {
		return err
	}
	r.session = session
	answered := make(chan error, 1)
	go func() {
		_, err := session.Ping()
		answered <- err
	}()
	timeout := time.NewTimer(startUp)
	defer timeout.Stop()
	select {
	case err = <-answered:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timeout.C:
		err = fmt.Errorf("no answer within %v", startUp)
	}
	if err != nil {
		return fmt.Errorf("the relay does not answer: %w", err)
	}
	return nil
}

// attached is the stream to the relay's stdin and from its stdout.
type attached struct {
	io.ReadCloser
	stream *client.HijackedResponse
}

func (a *attached) Write(p []byte) (int, error) { return a.stream.Conn.Write(p) }

func (a *attached) Close() error {
	a.stream.Close()
	return a.ReadCloser.Close()
}

// Dial implements dial.Way.
func (r *relay) Dial(ctx context.Context) (net.Conn, error) {
	stream, err := r.session.OpenStream()
	if err != nil {
		return nil, r.explain(err)
	}
	stop := context.AfterFunc(ctx, func() { stream.Close() })
	conn, err := greet(stream)
	if !stop() {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		stream.Close()
		return nil, r.explain(err)
	}
	return conn, nil
}

// explain adds to an error what the relay said.
func (r *relay) explain(err error) error {
	if r.session.IsClosed() {
		err = fmt.Errorf("the relay in the engine has ended: %w", err)
	}
	if said := r.said.String(); said != "" {
		err = fmt.Errorf("%w (it says %q)", err, said)
	}
	return err
}

// maxClaim bounds the name of a user.
const maxClaim = 64

// Claim implements dial.Way: to the plugin, every relay is root.
func (*relay) Claim() string { return claim(user.Current()) }

// claim returns a user's name in printable ASCII, as a header needs it.
func claim(u *user.User, err error) string {
	name := fmt.Sprint("uid ", os.Getuid())
	if err == nil && u.Username != "" {
		name = u.Username
	}
	name = strings.Map(func(c rune) rune {
		if c < ' ' || c > '~' {
			return '?'
		}
		return c
	}, name)
	return name[:min(len(name), maxClaim)]
}

// Close implements dial.Way. The error says what is left in the engine.
func (r *relay) Close() error {
	r.closing.Do(func() {
		if r.session != nil {
			r.session.Close()
		}
		if r.stream != nil {
			r.stream.Close()
		}
		ctx, cancel := context.WithTimeout(context.Background(), cleanUp) // the caller's may have ended
		defer cancel()
		r.failed = errors.Join(removeContainer(ctx, r.engine, r.id), removeImage(ctx, r.engine, r.image))
	})
	return r.failed
}

// maxSaid bounds what is kept of a relay's stderr.
const maxSaid = 1 << 10

// tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	text []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	t.text = t.text[max(0, len(t.text)-maxSaid):]
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.text))
}
