package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	stdlog "log"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
)

const (
	// scrapeConns bounds the connections to METRICS_ADDR, because anybody who reaches the port
	// may open some. One more closes another: see connections.
	scrapeConns = 128
	// scrapeGrace is how long each connection has at least for its first request.
	scrapeGrace = 100 * time.Millisecond
	// scrapeHeaders is how long a client may take for the header of a request.
	scrapeHeaders = 2 * time.Second
	// scrapeRead is how long a client may take for its request, and be idle between two.
	scrapeRead = 5 * time.Second
	// scrapeWrite is how long a scrape may take, with its answer.
	scrapeWrite = 20 * time.Second
	// scrapeHeader bounds the header of a request, in bytes.
	scrapeHeader = 8 << 10
)

// scrapes serves GET /metrics at METRICS_ADDR. A nil *scrapes does nothing.
type scrapes struct {
	log      *logrus.Logger
	server   *http.Server
	listener net.Listener
}

// newScrapes listens at an address, which serve logs, because with port 0 the kernel chooses one. It
// returns nil if the address is empty.
func newScrapes(addr string, metrics http.Handler, log *logrus.Logger) (*scrapes, error) {
	if addr == "" {
		return nil, nil
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("setting METRICS_ADDR=%q: %w", addr, err)
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", metrics)
	open := connections{most: scrapeConns, open: make(map[net.Conn]*connection)}
	return &scrapes{log: log, listener: l, server: &http.Server{
		Handler: open.note(mux), ConnContext: withConn, ConnState: open.state,
		ReadHeaderTimeout: scrapeHeaders, ReadTimeout: scrapeRead, IdleTimeout: scrapeRead, WriteTimeout: scrapeWrite, MaxHeaderBytes: scrapeHeader,
		ErrorLog: stdlog.New(io.Discard, "", 0), // clients could fill the log with their mistakes
	}}, nil
}

// connections are the open connections of a server. One too many closes the one that has been
// longest without a complete request, whatever its address, and one that is being answered only
// if all are: a client that sends its request at once, as Prometheus does, is never that one while
// others are slow. scrapeWrite ends those that do not read their answers.
type connections struct {
	most int
	mu   sync.Mutex
	open map[net.Conn]*connection
}

type connection struct {
	asked     time.Time // when the last complete request came, or the connection
	answering bool      // since then; false again when the answer is sent
}

// compare orders connections by which is closed first.
func (c *connection) compare(d *connection) int {
	switch {
	case c.answering == d.answering:
		return c.asked.Compare(d.asked)
	case c.answering:
		return 1
	}
	return -1
}

type connKey struct{}

// withConn is the ConnContext of a server whose Handler calls note.
func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// note returns a handler that notes each complete request before it calls h. The server itself tells
// state only of a request's first byte. A body may never come.
func (o *connections) note(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, _ := r.Context().Value(connKey{}).(net.Conn)
		o.mu.Lock()
		if conn := o.open[c]; conn != nil && r.Body == http.NoBody {
			conn.asked, conn.answering = time.Now(), true
		}
		o.mu.Unlock()
		h.ServeHTTP(w, r)
	})
}

// state is the ConnState of a server. It is called for a new connection before the next one is
// accepted.
func (o *connections) state(c net.Conn, s http.ConnState) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch s {
	case http.StateNew:
		for len(o.open) >= o.most {
			first := slices.MinFunc(slices.Collect(maps.Keys(o.open)), func(a, b net.Conn) int { return o.open[a].compare(o.open[b]) })
			if early := scrapeGrace - time.Since(o.open[first].asked); early > 0 {
				o.mu.Unlock()
				time.Sleep(early) // the next clients wait in the kernel's queue
				o.mu.Lock()
				continue
			}
			delete(o.open, first)
			first.Close()
		}
		o.open[c] = &connection{asked: time.Now()}
	case http.StateIdle:
		if conn := o.open[c]; conn != nil {
			conn.answering = false
		}
	case http.StateClosed, http.StateHijacked:
		delete(o.open, c)
	}
}

// serve serves until close. A failure ends the scrapes alone.
func (s *scrapes) serve() {
	if s == nil {
		return
	}
	s.log.WithField("addr", s.listener.Addr().String()).Info("metrics: listening")
	if err := s.server.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
		s.log.WithError(err).Error("metrics: METRICS_ADDR is not served any more")
	}
}

// close cuts off the scrapes in progress, which read nothing that matters.
func (s *scrapes) close() {
	if s == nil {
		return
	}
	s.listener.Close() // the server does not know it before serve
	s.server.Close()
}
