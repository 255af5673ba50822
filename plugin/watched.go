package main

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
)

// watched is a listener that notices when an engine takes this process up, which it has
// started, or found alive when it started itself (live-restore). It sends no request then:
// it connects and closes the connection again (moby: plugin/manager_linux.go,
// pluginPostStart). It has no other connection yet, and the kernel has closed those of an
// engine that has ended. One that is at work has others when it closes one without a
// request, which net/http does with what it has too many of.
type watched struct {
	net.Listener
	taken func()
	open  atomic.Int64 // connections that neither side has closed
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

// Read is called at once, and while a request is answered, too: so it learns of the
// client's end before the answer is given up.
func (c *watchedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.used.Store(true)
	}
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		if left := c.closed(); left == 0 && errors.Is(err, io.EOF) && !c.used.Swap(true) {
			c.l.taken()
		}
	}
	return n, err
}

func (c *watchedConn) Close() error {
	c.closed()
	return c.Conn.Close()
}
