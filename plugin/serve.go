package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/driver"
	"github.com/helmdeck/repos/internal/intake"
	"github.com/helmdeck/repos/internal/origin"
)

// adminSocket is in the directory of the engine's socket, where root on the host can
// reach it.
const adminSocket = "admin.sock"

const (
	// stopWait is how long requests may continue after TERM: most take milliseconds.
	// Those that wait for a clone or a remote then get an error, because the engine would
	// otherwise retry for 20 s and then have no message.
	stopWait = time.Second
	// stopMost is when all connections are closed. The engine waits 10 s after TERM.
	stopMost = 4 * time.Second
	// maxHeader bounds the header of a request, in bytes. The longest have a URL with the names of a filter.
	maxHeader = 64 << 10
)

// endpoint is the handler of a socket.
type endpoint struct {
	http.Handler
	// connected, if not nil, is called when an engine connects to this process (see
	// watched).
	connected func()
	http2     bool // it is for gRPC
}

// endpoints returns the handlers of all sockets. The operators' socket is beside that of
// the engine, or of kubelet if there is no engine.
func (p *parts) endpoints(m machine, connected func()) map[string]endpoint {
	all, beside := make(map[string]endpoint), m.at.socket
	if m.at.socket != "" {
		all[m.at.socket] = endpoint{Handler: driver.Handler(p.docker), connected: connected}
	}
	if p.csi != nil {
		s := m.set.csi
		calls, registration := p.csi.handlers(s.endpoint)
		all[s.endpoint] = endpoint{Handler: calls, http2: true}
		all[s.registration()] = endpoint{Handler: registration, http2: true}
		beside = cmp.Or(beside, s.endpoint)
	}
	all[filepath.Join(filepath.Dir(beside), adminSocket)] = endpoint{Handler: p.admin(m)}
	return all
}

// serve serves the sockets, and scrapes, until ctx ends or lost is closed, and then lets
// current requests end. Errors wrap errAnew, unless a socket can't be made. It makes those sockets
// that handed does not have.
func serve(ctx context.Context, log *logrus.Logger, lost <-chan struct{}, handlers map[string]endpoint, handed sockets, scrapes *scrapes) error {
	if err := handed.check(handlers); err != nil {
		return err
	}
	listeners := make(map[string]net.Listener)
	defer func() {
		for _, l := range listeners {
			l.Close() // may be closed already
		}
	}()
	// Make all sockets first, so that a client of one finds the others.
	for socket, e := range handlers {
		l, err := handed.listen(socket)
		if err != nil {
			return err
		}
		if e.connected != nil {
			l = &watched{Listener: l, connected: e.connected}
		}
		listeners[socket] = intake.Listener{Listener: l}
	}
	failed := make(chan error, len(handlers))
	go scrapes.serve()
	requests, interrupt := context.WithCancelCause(context.Background())
	defer interrupt(nil)
	var servers []*http.Server
	defer func() {
		for _, s := range servers {
			s.Close()
		}
	}()
	for socket, l := range listeners {
		s := &http.Server{
			Handler: intake.Handler(handlers[socket].Handler), ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: maxHeader,
			BaseContext: func(net.Listener) context.Context { return requests },
			ConnContext: func(ctx context.Context, c net.Conn) context.Context {
				return origin.WithPeer(intake.WithConn(ctx, c), peer(c))
			},
		}
		if handlers[socket].http2 {
			s.Protocols = new(http.Protocols)
			s.Protocols.SetUnencryptedHTTP2(true)
		}
		servers = append(servers, s)
		go func() { failed <- fmt.Errorf("serve %s: %w: %w", socket, s.Serve(l), errAnew) }()
	}
	log.WithField("sockets", slices.Sorted(maps.Keys(handlers))).Info("listening")
	if _, err := daemon.SdNotify(false, daemon.SdNotifyReady); err != nil {
		log.WithError(err).Warn("systemd does not know that this process is ready")
	}
	var err error
	select {
	case err := <-failed:
		return err
	case <-lost:
		err = errUnreached
	case <-ctx.Done():
	}
	log.Info("stopping: workspaces stay mounted")
	scrapes.close() // a slow reader must not delay the end
	timer := time.AfterFunc(stopWait, func() { interrupt(driver.ErrStopping) })
	defer timer.Stop()
	wait, cancel := context.WithTimeout(context.Background(), stopMost)
	defer cancel()
	for _, s := range servers {
		if err := s.Shutdown(wait); err != nil {
			log.WithError(err).Warn("stopping: requests were cut off")
		}
	}
	return err
}

// peer returns the uid of the process that has connected to a unix socket, as it was then, or
// origin.Unknown.
func peer(c net.Conn) int64 {
	u, ok := c.(syscall.Conn)
	if !ok {
		return origin.Unknown
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return origin.Unknown
	}
	uid := int64(origin.Unknown)
	if err := raw.Control(func(fd uintptr) {
		if cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			uid = int64(cred.Uid)
		}
	}); err != nil {
		return origin.Unknown
	}
	return uid
}
