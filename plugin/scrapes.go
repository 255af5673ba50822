package main

import (
	"errors"
	"fmt"
	"io"
	stdlog "log"
	"net"
	"net/http"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/net/netutil"
)

const (
	// scrapeConns bounds the connections to METRICS_ADDR, because anybody who reaches the port
	// may open some. More of them wait in the kernel's queue.
	scrapeConns = 32
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

// newScrapes listens at an address; it returns nil if that is empty.
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
	return &scrapes{log: log, listener: netutil.LimitListener(l, scrapeConns), server: &http.Server{
		Handler: mux, ReadTimeout: scrapeRead, IdleTimeout: scrapeRead, WriteTimeout: scrapeWrite, MaxHeaderBytes: scrapeHeader,
		ErrorLog: stdlog.New(io.Discard, "", 0), // clients could fill the log with their mistakes
	}}, nil
}

// serve serves until close. A failure ends the scrapes alone.
func (s *scrapes) serve() {
	if s == nil {
		return
	}
	s.log.WithField("addr", s.listener.Addr().String()).Info("metrics: listening")
	if err := s.server.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
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
