package main

import (
	"net"
	"path/filepath"
	"testing"
	"time"
)

// TestWatched checks that connected is called when an engine connects without another open connection,
// and closes the connection without a request.
func TestWatched(t *testing.T) {
	t.Parallel()
	inner, err := net.Listen("unix", filepath.Join(scratch(t), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer inner.Close()
	connected := 0
	l := &watched{Listener: inner, connected: func() { connected++ }}
	connect := func() (client, server net.Conn) {
		client, err := net.Dial("unix", inner.Addr().String())
		if err == nil {
			server, err = l.Accept()
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { client.Close(); server.Close() })
		return client, server
	}
	ask := func() (client, server net.Conn) {
		client, server = connect()
		if _, err := client.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if _, err := server.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		return client, server
	}
	gone := func(client, server net.Conn) {
		client.Close()
		for range 2 {
			if _, err := server.Read(make([]byte, 1)); err == nil {
				t.Fatal("a closed connection can be read")
			}
		}
	}
	want := func(when string, n int) {
		t.Helper()
		gone(connect())
		if connected != n {
			t.Errorf("%s: connected %d times, want %d", when, connected, n)
		}
	}

	want("first", 1)
	client, server := ask()
	want("while an engine is at work", 1)
	gone(client, server) // the request continues
	want("when it is gone", 2)

	_, server = connect()
	if err := server.SetReadDeadline(time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	if _, err := server.Read(make([]byte, 1)); err == nil {
		t.Error("no timeout")
	}
	want("while there is one that is slow", 2)
	server.Close()
	want("when it was closed here", 3)
}
