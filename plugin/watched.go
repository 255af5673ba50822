package main

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
)

// watched is a listener that detects when an engine connects to this process for the first
// time: after starting it, or after finding it alive when the engine itself started
// (live-restore). The engine then sends no request, but closes the connection again (moby:
// plugin/manager_linux.go, pluginPostStart). It has no other connection yet, and the
// kernel has closed those of a previous engine. An engine in normal operation also closes
// connections without a request, because net/http may open too many, but only while it has
// others.
type watched struct {
	net.Listener
	connected func()
	open      atomic.Int64 // connections that neither side has closed
}

func (l *watched) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.open.Add(1)
	return &watchedConn{Conn: c, l: l, closed: sync.OnceValue(func() int64 { return l.open.Add(-1) })}, nil
}

type watchedConn struct {
	net.Conn
	l      *watched
	used   atomic.Bool
	closed func() (left int64)
}

// Read is called at once, and also while a request is handled: so it sees a closed
// connection without delay.
func (c *watchedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.used.Store(true)
	}
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		if left := c.closed(); left == 0 && errors.Is(err, io.EOF) && !c.used.Swap(true) {
			c.l.connected()
		}
	}
	return n, err
}

func (c *watchedConn) Close() error {
	c.closed()
	return c.Conn.Close()
}
