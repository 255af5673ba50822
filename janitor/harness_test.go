package janitor

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/helmdeck/repos/internal/disk"
)

// shelf is a Stock in memory. Evict moves data to its trash, and Hurry frees the trash.
type shelf struct {
	mu     sync.Mutex
	inv    Inventory
	fail   map[string]error // errors of Evict, by `clone` or `clone/id`
	tried  []string
	looked int // number of inventories
	polled int
	hurry  int
	broken error // error of Inventory
	stuck  bool  // nothing in the trash can be deleted
}

func (s *shelf) Inventory(ctx context.Context, of Choice) (Inventory, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.looked++
	inv := s.inv
	inv.Now = time.Now()
	chosen := of.Of(func(yield func(string) bool) {
		for _, c := range inv.Clones {
			yield(c.Key)
		}
	})
	inv.Clones = slices.DeleteFunc(slices.Clone(inv.Clones), func(c Clone) bool { return !slices.Contains(chosen, c.Key) })
	for i := range inv.Clones {
		inv.Clones[i].Parts = slices.Clone(inv.Clones[i].Parts)
	}
	return inv, s.broken
}

func (s *shelf) Evict(ctx context.Context, e Eviction) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	what := strings.TrimSuffix(e.Clone+"/"+e.ID, "/")
	s.tried = append(s.tried, what)
	if err := s.fail[what]; err != nil {
		return err
	}
	i := slices.IndexFunc(s.inv.Clones, func(c Clone) bool { return c.Key == e.Clone })
	c := &s.inv.Clones[i]
	if e.Kind == WholeClone {
		s.inv.Clones = slices.Delete(s.inv.Clones, i, i+1)
	} else {
		c.Parts = slices.DeleteFunc(c.Parts, func(p Part) bool { return p.ID == e.ID })
		for n := range c.Parts { // the checkpoint needed them
			if c.Parts[n].Use.Below {
				c.Parts[n].Use.Below = false
			}
		}
	}
	s.inv.Trash = s.inv.Trash.Add(e.Size)
	return nil
}

func (s *shelf) Space() (disk.Space, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.polled++
	return s.inv.Space, nil
}

func (s *shelf) Hurry(ctx context.Context, enough func() bool) error {
	if enough() {
		return nil
	}
	if s.stuck {
		<-ctx.Done()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hurry++
	if s.stuck {
		return ctx.Err()
	}
	s.inv.Space.Free = s.inv.Space.Free.Add(s.inv.Trash)
	s.inv.Trash = disk.Size{}
	return ctx.Err()
}

func (s *shelf) Trash() disk.Size {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inv.Trash
}

// set changes the shelf.
func (s *shelf) set(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// count reads a counter of the shelf.
func (s *shelf) count(n *int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return *n
}

// attempts returns the evictions that were tried since the last call.
func (s *shelf) attempts() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := strings.Join(s.tried, ", ")
	s.tried = nil
	return list
}

// open returns a Janitor of a scene whose times follow the clock of the synctest bubble.
func open(t *testing.T, c Config, text string) (*Janitor, *shelf, *bytes.Buffer) {
	t.Helper()
	inv := scene(t, text)
	shift := Stamp(time.Now()) - Stamp(now)
	for i := range inv.Clones {
		inv.Clones[i].Used += shift
		for n := range inv.Clones[i].Parts {
			inv.Clones[i].Parts[n].Used += shift
		}
	}
	inv.Space = disk.Space{Total: disk.Size{Bytes: 1000}, Free: disk.Size{Bytes: 500}}
	s := &shelf{inv: inv, fail: make(map[string]error)}
	var out bytes.Buffer
	c.Stock, c.Log = s, logrus.New()
	c.Log.SetOutput(&out)
	c.Log.SetFormatter(&logrus.TextFormatter{DisableTimestamp: true, DisableQuote: true})
	return New(c), s, &out
}

// Events returns all events that are kept.
func (j *Janitor) Events() []Event {
	events, _ := j.EventsAfter(0)
	return events
}

// running runs a Janitor until the test ends.
func running(t *testing.T, j *Janitor) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { j.Run(ctx); close(done) }()
	t.Cleanup(func() { cancel(); <-done })
	synctest.Wait()
}

// after lets time pass.
func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
