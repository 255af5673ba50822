package admin

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/helmdeck/repos/api"
)

// pipes is a listener whose connections the test makes: each end of a pipe has no buffer.
type pipes chan net.Conn

func (p pipes) Close() error   { return nil }
func (p pipes) Addr() net.Addr { return &net.UnixAddr{} }

func (p pipes) Accept() (net.Conn, error) {
	if conn, ok := <-p; ok {
		return conn, nil
	}
	return nil, net.ErrClosed
}

// TestSlowClientIsDisconnected checks that a client that does not read its answer is disconnected
// after half a minute, and not one that reads slowly, or waits for long between two requests.
func TestSlowClientIsDisconnected(t *testing.T) {
	for _, path := range []string{"/v1/events", "/v1/events?follow=true"} {
		synctest.Test(t, func(t *testing.T) {
			log, _ := logger()
			f := newFeed(100)
			f.add(100)
			h := newFollowers(Config{Janitor: f, Log: log}).(*followers)
			listener := make(pipes)
			server := &http.Server{Handler: Config{Log: log}.guard(h)}
			go server.Serve(listener)
			defer server.Close()
			defer close(listener)

			ours, theirs := net.Pipe()
			listener <- theirs
			lines := bufio.NewReader(ours)
			ask := func(path string) {
				t.Helper()
				fmt.Fprintf(ours, "GET %s HTTP/1.1\r\nHost: admin\r\n\r\n", path)
				if line, err := lines.ReadString('\n'); err != nil || line != "HTTP/1.1 200 OK\r\n" {
					t.Fatalf("%q, %v", line, err)
				}
			}
			ask("/v1/events?limit=1")
			res, err := http.ReadResponse(bufio.NewReader(io.MultiReader(strings.NewReader("HTTP/1.1 200 OK\r\n"), lines)), nil)
			if err != nil {
				t.Fatal(err)
			}
			for range 3 { // slowly
				time.Sleep(writeWait / 4)
				if _, err := io.ReadFull(res.Body, make([]byte, 300)); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := io.Copy(io.Discard, res.Body); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Hour) // idle

			lines.Reset(ours)
			ask(path)
			time.Sleep(writeWait + time.Second)
			synctest.Wait()
			if len(h.turns) != 0 {
				t.Errorf("%s: the handler still runs", path)
			}
			if _, err := io.Copy(io.Discard, lines); err != nil {
				t.Errorf("%s: the connection was not closed: %v", path, err)
			}
		})
	}
}

// TestOperation checks the lines of a long operation, and what becomes of its result or error.
func TestOperation(t *testing.T) {
	broken := errors.New("broken")
	for _, tt := range []struct {
		name    string
		f       operation
		status  int
		content string
		last    string
	}{
		{"at once", func(*http.Request, func(api.Progress)) (any, error) { return list{"commit": "c"}, nil },
			200, "application/jsonl", `{"result":{"commit":"c"}}`},
		{"with progress", func(_ *http.Request, report func(api.Progress)) (any, error) {
			for i := range int64(1000) {
				report(api.Progress{Status: "fetching", Current: i, Total: 999})
			}
			return list{"commit": "c"}, nil
		}, 200, "application/jsonl", `{"result":{"commit":"c"}}`},
		{"refused", func(*http.Request, func(api.Progress)) (any, error) { return nil, notFound("there is none") },
			404, "application/json", `{"error":"there is none"}`},
		{"failed", func(*http.Request, func(api.Progress)) (any, error) { return nil, broken },
			500, "application/json", `{"error":"broken"}`},
	} {
		log, _ := logger()
		w := httptest.NewRecorder()
		Config{Log: log}.operate(tt.f).ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", nil))
		lines := strings.Split(strings.TrimSpace(w.Body.String()), "\n")
		if w.Code != tt.status || w.Header().Get("Content-Type") != tt.content || lines[len(lines)-1] != tt.last {
			t.Errorf("%s: got %d %s %q", tt.name, w.Code, w.Header(), lines)
		}
	}
}

// TestOperationFailsLate checks that an operation that fails after progress was sent ends with a line
// that has the error.
func TestOperationFailsLate(t *testing.T) {
	log, logged := logger()
	sent := make(chan struct{})
	h := Config{Log: log}.operate(func(_ *http.Request, report func(api.Progress)) (any, error) {
		report(api.Progress{Status: "fetching"})
		<-sent
		return nil, errors.New("broken")
	})
	var got []string
	res, err := http.Get(httpServer(t, h).URL)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	for s := bufio.NewScanner(res.Body); s.Scan(); {
		if got = append(got, s.Text()); len(got) == 1 {
			close(sent)
		}
	}
	if strings.Join(got, " ") != `{"status":"fetching"} {"error":"broken"}` || !strings.Contains(logged.String(), "broken") {
		t.Errorf("got %q, logged %s", got, logged)
	}
}

// TestOperationOutlivesSlowClient checks that report does not wait for the client, and that a client
// that leaves ends the request's context.
func TestOperationOutlivesSlowClient(t *testing.T) {
	log, _ := logger()
	left := make(chan error)
	h := Config{Log: log}.operate(func(r *http.Request, report func(api.Progress)) (any, error) {
		for range 10_000 { // more than the socket's buffers hold
			report(api.Progress{Status: strings.Repeat("x", 1000)})
		}
		<-r.Context().Done()
		left <- context.Cause(r.Context())
		return nil, r.Context().Err()
	})
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, httpServer(t, h).URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	res.Body.Close()
}

func httpServer(t *testing.T, h http.Handler) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}
