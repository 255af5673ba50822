package githttp

import (
	"context"
	"net"
	"net/http"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestSilentAtDial asks a server that accepts no connection. Without a bound the kernel would try for
// two minutes.
func TestSilentAtDial(t *testing.T) {
	t.Parallel()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := unix.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	at := net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: name.(*unix.SockaddrInet4).Port}
	for { // fill the queue of connections that nobody accepts
		c, err := net.DialTimeout("tcp", at.String(), 100*time.Millisecond)
		if err != nil {
			break
		}
		defer c.Close()
	}
	client := New(Config{dialTimeout: 50 * time.Millisecond})
	_, err = client.LsRefs(t.Context(), Remote{URL: "http://" + at.String() + "/r"}, nil)
	if timeout, ok := err.(net.Error); !ok || !timeout.Timeout() {
		t.Errorf("got %v, want a timeout", err)
	}
}

// TestSilentAtReopening opens a connection again to a server that has become silent. That ends, is not
// tried again, and the next question begins anew.
func TestSilentAtReopening(t *testing.T) {
	t.Parallel()
	f := serve(t, nil)
	client, r, ended := f.client(), Remote{URL: f.URL + "/r"}, make(chan struct{}, 10)
	client.config.reopenTimeout = 50 * time.Millisecond
	client.config.Go = func(f func(context.Context)) {
		go func() {
			f(context.Background())
			ended <- struct{}{}
		}()
	}
	f.mustAsk(t, client, r)
	f.set(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	p, err := client.pool(r)
	if err != nil {
		t.Fatal(err)
	}
	p.lost()
	<-ended
	p.lost()
	f.set(answer)
	f.took()
	f.mustAsk(t, client, r)
	if requests, _ := f.took(); len(requests) != 1 || len(ended) > 0 {
		t.Errorf("requests %q, and %d more attempts, want one question alone", requests, len(ended))
	}
}
