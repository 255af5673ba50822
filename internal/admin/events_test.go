package admin

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/janitor"
	"github.com/helmdeck/repos/tests/wait"
)

// feed is a janitor that only has events, of which it keeps the last ones.
type feed struct {
	Janitor
	mu     sync.Mutex
	events []janitor.Event
	keep   int
	seq    int64
	more   chan struct{}
	reads  chan struct{} // receives after each EventsAfter, if not nil
}

func newFeed(keep int) *feed { return &feed{keep: keep, more: make(chan struct{})} }

func (f *feed) add(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for range n {
		f.seq++
		f.events = append(f.events, janitor.Event{Seq: f.seq, Time: at, Type: janitor.Evicted, Text: strings.Repeat("x", 1000)})
		f.events = f.events[max(0, len(f.events)-f.keep):]
	}
	close(f.more)
	f.more = make(chan struct{})
}

func (f *feed) EventsAfter(seq int64) ([]janitor.Event, <-chan struct{}) {
	f.mu.Lock()
	list := slices.DeleteFunc(slices.Clone(f.events), func(e janitor.Event) bool { return e.Seq <= seq })
	more := f.more
	f.mu.Unlock()
	if f.reads != nil {
		f.reads <- struct{}{}
	}
	return list, more
}

func TestEventPages(t *testing.T) {
	log, _ := logger()
	f := newFeed(1000)
	f.add(1000)
	c := client(t, Config{Janitor: f, Log: log})
	events, err := c.Events(t.Context())
	if err != nil || len(events) != 1000 || events[0].Seq != 1 || events[999].Seq != 1000 {
		t.Fatalf("%d events, %v", len(events), err)
	}
}

// TestFollow checks that a follower gets the known events, and then each new one.
func TestFollow(t *testing.T) {
	log, _ := logger()
	f := newFeed(1000)
	f.add(3)
	c := client(t, Config{Janitor: f, Log: log})
	enough := errors.New("enough")
	var got []int64
	err := c.FollowEvents(t.Context(), 1, func(e api.Event) error {
		got = append(got, e.Seq)
		switch e.Seq {
		case 3:
			f.add(2)
		case 5:
			f.add(1)
		case 6:
			return enough
		}
		return nil
	})
	if err != enough || !slices.Equal(got, []int64{2, 3, 4, 5, 6}) {
		t.Errorf("got %d, %v", got, err)
	}
}

// TestSlowFollower checks that a client that reads too slowly holds no events in memory, and is told
// how many it missed.
func TestSlowFollower(t *testing.T) {
	log, _ := logger()
	f := newFeed(10)
	f.reads = make(chan struct{})
	c := client(t, Config{Janitor: f, Log: log})
	enough := errors.New("enough")
	var got []string
	done := make(chan error)
	go func() {
		done <- c.FollowEvents(t.Context(), 0, func(e api.Event) error {
			got = append(got, fmt.Sprint(e.Seq, " ", e.Type))
			if e.Type == "lost" {
				got = append(got, e.Text)
			}
			if e.Seq == 35 {
				return enough
			}
			return nil
		})
	}()
	<-f.reads
	f.add(5)
	<-f.reads
	// The handler has the first five, and the next time that it asks, 20 are gone.
	f.add(30)
	<-f.reads
	if err := <-done; err != enough {
		t.Fatal(err)
	}
	if len(got) != 5+2+10 || got[5] != "25 lost" || got[6] != "20 events are lost, because they were read too slowly" || got[7] != "26 evicted" {
		t.Errorf("%q", got)
	}
}

// TestFollowersLeave checks that a follower that leaves, in the middle of a line or without reading
// any, frees its turn, and that there are at most 32 at a time.
func TestFollowersLeave(t *testing.T) {
	log, _ := logger()
	f := newFeed(1000)
	f.add(1000) // 1 MB: more than the socket's buffers hold, so the handler blocks in a write
	h := newFollowers(Config{Janitor: f, Log: log})
	socket := serve(t, h)
	c := api.Dial(socket)
	for range 2 {
		var connections []net.Conn
		for range maxFollowers {
			conn, err := net.Dial("unix", socket)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(conn, "GET /v1/events?follow=true HTTP/1.1\r\nHost: admin\r\n\r\n")
			if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || !strings.Contains(line, "200") {
				t.Fatalf("%q, %v", line, err)
			}
			connections = append(connections, conn)
		}
		var refused *api.Error
		if err := c.FollowEvents(t.Context(), 0, nil); !errors.As(err, &refused) || refused.Status != http.StatusServiceUnavailable {
			t.Errorf("one more: %v, want 503", err)
		}
		for _, conn := range connections {
			conn.Close()
		}
		wait.For(t, "the end of the streams", func() error { return wait.Equal(len(h.(*followers).turns), 0) })
	}
}

// TestFollowEnds checks that the stream ends with its request's context.
func TestFollowEnds(t *testing.T) {
	log, _ := logger()
	f := newFeed(10)
	f.add(1)
	ctx, cancel := context.WithCancel(t.Context())
	err := client(t, Config{Janitor: f, Log: log}).FollowEvents(ctx, 0, func(api.Event) error {
		cancel()
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
