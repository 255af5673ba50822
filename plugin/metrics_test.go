package main

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/helmdeck/repos/tests/wait"
)

// metricsAddr returns the address at which the plugin serves METRICS_ADDR, as its log names it.
func (p *process) metricsAddr() string {
	p.t.Helper()
	const message = "metrics: listening"
	p.waitFor(message)
	lines := p.log.since(0)
	return lines[slices.IndexFunc(lines, func(l logged) bool { return l.message == message })].fields["addr"].(string)
}

// get sends a request to METRICS_ADDR.
func get(t *testing.T, method, url string) (status int, body string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(data)
}

func TestMetricsAddr(t *testing.T) {
	t.Parallel()
	for _, host := range []string{"127.0.0.1", "::1"} {
		t.Run(host, func(t *testing.T) {
			addr := start(t, scratch(t), "METRICS_ADDR="+net.JoinHostPort(host, "0")).metricsAddr()
			if status, body := get(t, "GET", "http://"+addr+"/metrics"); status != 200 || !strings.Contains(body, "\nhelmdeck_repos_volumes 0\n") {
				t.Errorf("status %d: %s", status, body)
			}
			for path, want := range map[string]int{"/": 404, "/v1/clones": 404, "/metrics/x": 404, "/VolumeDriver.List": 404} {
				if status, _ := get(t, "GET", "http://"+addr+path); status != want {
					t.Errorf("%s: status %d, want %d", path, status, want)
				}
			}
			if status, _ := get(t, "POST", "http://"+addr+"/metrics"); status != 405 {
				t.Errorf("POST: status %d", status)
			}
		})
	}
}

// TestMetricsAddrInUse checks that the plugin does not start, and says why.
func TestMetricsAddrInUse(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	log := logrus.New()
	log.SetOutput(io.Discard)
	dir := scratch(t)
	err = run(context.Background(), places{data: filepath.Join(dir, "data"), socket: filepath.Join(dir, "repos.sock"), fetchUID: fetchUID}, environment("METRICS_ADDR="+l.Addr().String()), log)
	if err == nil || !strings.Contains(err.Error(), "setting METRICS_ADDR=") || !strings.Contains(err.Error(), "address already in use") {
		t.Errorf("%v, want an error about METRICS_ADDR", err)
	}
}

// TestSlowScrapers checks that clients that send half a request, or do not read their answer,
// lose their connections, so that others can scrape, and do not delay the end of the plugin.
func TestSlowScrapers(t *testing.T) {
	t.Parallel()
	p := start(t, scratch(t), "METRICS_ADDR=127.0.0.1:0")
	addr := p.metricsAddr()
	var open []net.Conn
	for i := range scrapeConns + 4 {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		open = append(open, conn)
		request := "GET /metrics HTTP/1.1\r\nHost: x\r\n"
		if i%2 == 0 {
			request += "\r\n"
		}
		if _, err := io.WriteString(conn, request); err != nil {
			t.Fatal(err)
		}
	}
	if status, _ := get(t, "GET", "http://"+addr+"/metrics"); status != 200 {
		t.Errorf("status %d", status)
	}
	p.stop()
	if line, _ := p.log.find("cut off"); line != "" {
		t.Errorf("the stop waited for a scraper: %s", line)
	}
	for _, conn := range open {
		if err := conn.SetDeadline(time.Now().Add(wait.Most(t))); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal("a connection is still open")
		}
	}
}

// TestCrowdOfScrapers: 400 clients that never complete a request, and come back when they are cut off,
// keep nobody else from a scrape.
//
// Not parallel: each scrape must begin within scrapeGrace.
func TestCrowdOfScrapers(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	log := logrus.New()
	log.SetOutput(io.Discard)
	s, err := newScrapes("127.0.0.1:0", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "x 1\n") }), log)
	if err != nil {
		t.Fatal(err)
	}
	var done sync.WaitGroup
	defer done.Wait()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	defer s.close()
	done.Go(s.serve)
	addr := s.listener.Addr().String()
	var slow sync.WaitGroup // until each has begun a request
	for range 400 {
		slow.Add(1)
		done.Go(func() {
			begun := sync.OnceFunc(slow.Done)
			defer begun()
			for ctx.Err() == nil {
				conn, err := net.Dial("tcp", addr)
				if err != nil {
					return
				}
				end := context.AfterFunc(ctx, func() { conn.Close() })
				io.WriteString(conn, "GET /metrics HTTP/1.1\r\n")
				begun()
				io.Copy(io.Discard, conn) // until it is cut off
				end()
				conn.Close()
			}
		})
	}
	slow.Wait()
	for i := range 20 {
		client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		resp, err := client.Get("http://" + addr + "/metrics")
		if err != nil {
			t.Errorf("scrape %d: %v", i, err)
			continue
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || string(body) != "x 1\n" {
			t.Errorf("scrape %d: %q, %v", i, body, err)
		}
	}
}

// TestScrapeDuringStop checks that close does not wait for a scrape.
func TestScrapeDuringStop(t *testing.T) {
	t.Parallel()
	log := logrus.New()
	log.SetOutput(io.Discard)
	began, proceed := make(chan bool), make(chan bool)
	s, err := newScrapes("127.0.0.1:0", http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		began <- true
		<-proceed
	}), log)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan bool)
	go func() { s.serve(); close(served) }()
	failed := make(chan error)
	go func() {
		_, err := http.Get("http://" + s.listener.Addr().String() + "/metrics")
		failed <- err
	}()
	<-began
	s.close()
	if err := <-failed; err == nil {
		t.Error("the scrape succeeded")
	}
	<-served
	if _, err := s.listener.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the address is still open: %v", err)
	}
	close(proceed)
	s.close()

	var none *scrapes
	none.serve()
	none.close()
	if s, err = newScrapes("127.0.0.1:0", http.NotFoundHandler(), log); err != nil {
		t.Fatal(err)
	}
	s.close() // the start has failed later
	s.serve()
}
