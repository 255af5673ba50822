package main

import (
	"io"
	"net"
	"net/http"
	"testing"
)

// TestScrapeInProgressStays: a connection too many closes none whose scrape is being answered, as long as there are
// others: one that is silent, one that was answered, and one whose request lacks its body.
func TestScrapeInProgressStays(t *testing.T) {
	t.Parallel()
	begun, proceed, idle := make(chan bool), make(chan bool), make(chan bool)
	open := connections{most: 2, open: make(map[net.Conn]*connection)}
	server := &http.Server{
		Handler: open.note(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/slow" {
				begun <- true
				<-proceed
			}
			io.WriteString(w, "x 1\n")
		})),
		ConnContext: withConn,
		ConnState: func(c net.Conn, s http.ConnState) {
			open.state(c, s)
			if s == http.StateIdle {
				idle <- true
			}
		},
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go server.Serve(l)
	defer server.Close()
	scrape := func() (done chan error) {
		done = make(chan error, 1)
		go func() {
			client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
			resp, err := client.Get("http://" + l.Addr().String() + "/slow")
			if err == nil {
				_, err = io.ReadAll(resp.Body)
				resp.Body.Close()
			}
			done <- err
		}()
		return done
	}
	dial := func(request string) (closed chan error) {
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		closed = make(chan error, 1)
		go func() {
			io.WriteString(conn, request)
			_, err := io.Copy(io.Discard, conn)
			closed <- err
		}()
		return closed
	}

	first := scrape()
	<-begun
	stays := func(closed chan error) {
		t.Helper()
		select {
		case <-closed:
		case err := <-first:
			t.Fatalf("the scrape ended while another connection was open: %v", err)
		}
	}
	silent := dial("")
	answered := dial("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	stays(silent)
	<-idle
	half := dial("GET /slow HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\n")
	stays(answered)
	<-begun
	second := scrape()
	stays(half)
	<-begun
	dial("")
	if err := <-first; err == nil {
		t.Error("a newcomer waits while all connections are being answered")
	}
	close(proceed)
	if err := <-second; err != nil {
		t.Error(err)
	}
}
