package janitor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/helmdeck/repos/internal/disk"
)

// shelf is a Stock in memory. What is evicted goes to its trash, and is free when
// Hurry has deleted it.
type shelf struct {
	mu     sync.Mutex
	inv    Inventory
	fail   map[string]error // of Evict, by `clone` or `clone/id`
	tried  []string
	looked int // inventories
	polled int
	hurry  int
	broken error // of Inventory
	stuck  bool  // nothing in the trash can be deleted
}

func (s *shelf) Inventory(ctx context.Context) (Inventory, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.looked++
	inv := s.inv
	inv.Now = time.Now()
	inv.Clones = slices.Clone(inv.Clones)
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
		for n := range c.Parts { // it stood on them
			if c.Parts[n].Held == Pinned {
				c.Parts[n].Held = Free
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

// set changes the shelf.
func (s *shelf) set(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// count reads one of its counters.
func (s *shelf) count(n *int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return *n
}

// attempts returns what was tried since the last call.
func (s *shelf) attempts() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := strings.Join(s.tried, ", ")
	s.tried = nil
	return list
}

// open returns a Janitor of a scene that is as old as the bubble's clock says.
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

func TestRunSweeps(t *testing.T) {
	for _, tt := range []struct {
		name string
		do   func(t *testing.T, j *Janitor, s *shelf)
		want string
	}{
		{"at once", func(t *testing.T, j *Janitor, s *shelf) {}, "t/old"},
		{"on schedule", func(t *testing.T, j *Janitor, s *shelf) {
			s.attempts()
			s.set(func() { s.inv.Clones[0].Used -= 14 * 24 * 3600 })
			after(9 * time.Minute)
			if got := s.attempts(); got != "" {
				t.Errorf("too early: %s", got)
			}
			after(time.Minute)
		}, "t/new"},
		{"after a nudge", func(t *testing.T, j *Janitor, s *shelf) {
			after(time.Second)
			s.attempts()
			s.set(func() { s.inv.Clones[0].Used -= 14 * 24 * 3600 })
			j.Nudge()
			j.Nudge()
			synctest.Wait()
		}, "t/new"},
		{"nudges are not each a sweep", func(t *testing.T, j *Janitor, s *shelf) {
			after(time.Second)
			before := s.count(&s.looked)
			for range 1000 {
				j.Nudge()
				after(time.Millisecond)
			}
			if n := s.count(&s.looked) - before; n > 15 {
				t.Errorf("%d sweeps in a second", n)
			}
			s.attempts()
		}, ""},
		{"after nudges without what is late", func(t *testing.T, j *Janitor, s *shelf) {
			after(time.Second)
			s.attempts()
			s.set(func() { s.inv.Clones[0].Used -= 2000 * 24 * 3600 })
			for range 20 {
				j.Nudge()
				after(time.Second)
			}
			if got := s.attempts(); got != "" {
				t.Errorf("evicted %s", got)
			}
			after(10 * time.Minute)
		}, "t/new"},
		{"when the disk is getting full", func(t *testing.T, j *Janitor, s *shelf) {
			after(time.Second)
			s.attempts()
			s.set(func() { s.inv.Space.Free.Bytes, s.inv.Trash = 95, disk.Size{} })
			after(pollEvery)
		}, "t/new"},
		{"more and more seldom when that does not help", func(t *testing.T, j *Janitor, s *shelf) {
			s.set(func() { s.inv.Clones, s.inv.Space.Free.Bytes = nil, 10 })
			s.attempts()
			before := s.count(&s.looked)
			after(9 * time.Minute)
			if n := s.count(&s.looked) - before; n > 12 || n < 4 {
				t.Errorf("%d sweeps in nine minutes", n)
			}
		}, ""},
		{"without a word when the disk has room", func(t *testing.T, j *Janitor, s *shelf) {
			s.attempts()
			before := s.count(&s.looked)
			after(9 * time.Minute)
			if n := s.count(&s.looked) - before; n != 0 || s.count(&s.polled) < 100 {
				t.Errorf("%d inventories, %d polls", n, s.polled)
			}
		}, ""},
		{"again after an error", func(t *testing.T, j *Janitor, s *shelf) {
			s.attempts()
			s.set(func() { s.inv.Clones[0].Used -= 14 * 24 * 3600; s.broken = errors.New("no inventory") })
			after(10 * time.Minute)
			s.set(func() { s.broken = nil })
			after(10 * time.Minute)
		}, "t/new"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j, s, _ := open(t, Config{Interval: 10 * time.Minute, Limits: Limits{TTL: 14 * day, DiscardTTL: day, MinFree: .1}}, "t/new 1h 20\n t/old 14d 50")
				running(t, j)
				tt.do(t, j, s)
				if got := s.attempts(); got != tt.want {
					t.Errorf("evicted %q, want %q", got, tt.want)
				}
			})
		})
	}
}

// TestFailuresAreLeftAlone: for longer each time, and the rest of the sweep goes on.
func TestFailuresAreLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, s, log := open(t, Config{Limits: Limits{DiscardTTL: day}}, "t/a 1h 10; discard d 30h 5; discard e 29h 5; discard f 28h 5")
		s.fail["t/a/d"] = errors.New("it is stuck")
		s.fail["t/a/e"] = fmt.Errorf("discard e: %w", ErrHeld)
		sweep := func() Report {
			t.Helper()
			r, err := j.Sweep(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		r := sweep()
		// e came into use: it is planned again at once.
		if got, want := s.attempts(), "t/a/d, t/a/e, t/a/f, t/a/e"; got != want {
			t.Errorf("tried %s, want %s", got, want)
		}
		if r.Failed != 1 || r.Held != 2 || len(r.Evicted) != 1 || r.Frees.Bytes != 5 {
			t.Errorf("%+v", r)
		}
		for _, want := range []string{"level=warning msg=janitor: not evicted; it is tried again after 5m0s", "error=it is stuck",
			"level=info msg=janitor: evicted: it ended longer ago than DISCARD_TTL=24h0m0s", "id=f kind=discard reason=expired"} {
			if !strings.Contains(log.String(), want) {
				t.Errorf("the log has no %q:\n%s", want, log)
			}
		}
		s.fail["t/a/e"] = nil
		if sweep(); s.attempts() != "t/a/e" {
			t.Error("d was tried again at once, or e not")
		}
		for _, wait := range []time.Duration{5 * time.Minute, 10 * time.Minute, 20 * time.Minute} {
			time.Sleep(wait - time.Second)
			if sweep(); s.attempts() != "" {
				t.Errorf("tried again before %v", wait)
			}
			time.Sleep(time.Second)
			if sweep(); s.attempts() != "t/a/d" {
				t.Errorf("not tried again after %v", wait)
			}
		}
		delete(s.fail, "t/a/d")
		time.Sleep(day)
		if sweep(); s.attempts() != "t/a/d" || len(j.failed) != 0 {
			t.Errorf("not forgiven: %v", j.failed)
		}
	})
}

// TestPlansBuildOnEachOther: what a discard stood on can go after it, and what is
// late goes once per sweep all the same.
func TestPlansBuildOnEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, s, _ := open(t, Config{Limits: Limits{TTL: 7 * day, DiscardTTL: day, MaxSize: 50}},
			"t/a 1h 40 leased; tree x 3h 20 pinned; discard d 2h 5\n t/l 100d 1 \n t/m 101d 1\n t/n 102d 1")
		if _, err := j.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got, want := s.attempts(), "t/n, t/a/d, t/m, t/l, t/a/x"; got != want && got != "t/n, t/a/d, t/m, t/a/x" {
			t.Errorf("tried %s, want %s", got, want)
		}
	})
}

func TestPlanDoesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, s, _ := open(t, Config{Limits: Limits{TTL: 7 * day, DiscardTTL: day}}, "t/a 8d 40")
		plan, err := j.Plan(t.Context())
		if err != nil || len(plan.Evictions) != 1 || s.attempts() != "" || len(j.Events()) != 0 {
			t.Errorf("%+v, %v", plan, err)
		}
	})
}

func TestMakeRoom(t *testing.T) {
	held := "t/a 1h 300 leased; upper u 1h 200 leased vwork"
	for _, tt := range []struct {
		name        string
		free, trash int64
		need        int64
		scene       string
		want        string // evicted
		err         string // a part
	}{
		{"there is some by now", 60, 0, 50, held, "", ""},
		{"in the trash", 10, 100, 50, held, "", ""},
		{"by eviction", 10, 0, 50, "t/a 1h 100\n t/b 2h 95", "t/b", ""},
		{"as much as is needed", 10, 0, 150, "t/a 1h 100\n t/b 2h 95", "t/b, t/a", ""},
		{"some, and less than is needed", 10, 0, 150, "t/b 2h 45\n" + held, "t/b", ""},
		{"none, and less than is needed", 10, 0, 150, held, "",
			`10 B are free, 140 B are missing, and nothing more can be evicted (held by the clone of https://host/t/a for subject "t" (300 B, in use by a container), what was written to volume "vwork" (200 B, in use by a container))`},
		{"nobody knows how much is needed: MIN_FREE", 10, 0, 0, "t/a 1h 100\n t/b 2h 95", "t/b", ""},
		{"nobody knows how much is needed: what is free was not enough", 50, 70, 0, "t/a 1h 100\n t/b 2h 115\n t/c 3h 10", "t/c, t/b", ""},
		{"nobody knows how much is needed, and nothing can go", 50, 70, 0, held, "", "120 B are free, 100 B are missing"},
		{"nobody knows how much is needed: MIN_FREE more at most", 500, 0, 0, "t/a 1h 50\n t/b 2h 60\n o/c 3h 50", "o/c, t/b", ""},
		{"a guess takes the subject's own discards", 500, 0, 0, "o/a 1h 10; discard o 2h 300\n t/a 1h 10; discard d 1h 100", "t/a/d", ""},
		{"and others' where the disk is full", 5, 0, 0, "o/a 1h 10; discard o 2h 300\n t/a 1h 10 leased", "o/a/o", ""},
		{"and else no others', and nothing just made", 500, 0, 0, "o/a 1h 10; discard o 2h 300\n t/a 1m 300 new", "",
			`(held by the clone of https://host/t/a for subject "t" (300 B, just made), and 310 B of others: the plugin's log says whose)`},
		{"who holds it is said to none but an operator", 10, 0, 150, "o/secret 1h 300 leased; upper u 1h 200 leased vsecret", "",
			"(held by 500 B of others: the plugin's log says whose)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j, s, log := open(t, Config{Limits: Limits{TTL: 7 * day, DiscardTTL: day, Grace: 5 * time.Minute}}, tt.scene)
				s.inv.Space.Free.Bytes, s.inv.Trash.Bytes = tt.free, tt.trash
				if tt.need == 0 {
					j.Limits.MinFree = .1
				}
				err := j.MakeRoom(t.Context(), "t", disk.Size{Bytes: tt.need})
				var full *RoomError
				if tt.err == "" && err != nil || tt.err != "" && (!errors.As(err, &full) || !strings.Contains(err.Error(), tt.err)) {
					t.Errorf("got %v, want %q", err, tt.err)
				}
				if full != nil {
					events := j.Events()
					if last := events[len(events)-1]; last.Type != Warning || !strings.HasSuffix(last.Text, full.Full()) || !strings.Contains(log.String(), full.Full()) ||
						strings.Contains(tt.scene, "secret") && (strings.Contains(err.Error(), "secret") || !strings.Contains(full.Full(), "vsecret")) {
						t.Errorf("the operator is told %+v and %s", last, log)
					}
				}
				if got := s.attempts(); got != tt.want {
					t.Errorf("evicted %q, want %q", got, tt.want)
				}
				if space, _ := s.Space(); err == nil && tt.want != "" && (s.inv.Trash.Bytes != 0 || space.Free.Bytes <= tt.free) {
					t.Errorf("what was evicted is not free yet: %+v", s.inv)
				}
			})
		})
	}
}

// TestMakeRoomForManyAtOnce evicts once.
func TestMakeRoomForManyAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, s, _ := open(t, Config{Limits: Limits{DiscardTTL: day}}, "t/a 1h 100\n t/b 2h 100\n t/c 3h 100\n t/d 3h 100")
		s.inv.Space.Free.Bytes = 50
		unlock, _ := j.lock(t.Context())
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				if err := j.MakeRoom(t.Context(), "t", disk.Size{}); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		unlock()
		all.Wait()
		if got := s.attempts(); got != "t/c" {
			t.Errorf("evicted %s", got)
		}
	})
}

// TestMakeRoomWaitsItsTurn: for a sweep that is at work, and not longer than its
// context.
func TestMakeRoomWaitsItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, _, _ := open(t, Config{Limits: Limits{DiscardTTL: day}}, "")
		unlock, _ := j.lock(t.Context())
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := j.MakeRoom(ctx, "t", disk.Size{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		unlock()
		if err := j.MakeRoom(t.Context(), "t", disk.Size{Bytes: 1}); err != nil {
			t.Errorf("got %v", err)
		}
	})
}

// TestMakeRoomBesideStuckTrash: it waits for the trash, and not for ever, and evicts.
func TestMakeRoomBesideStuckTrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, s, _ := open(t, Config{Limits: Limits{DiscardTTL: day, MinFree: .1}}, "t/a 1h 100")
		s.inv.Space.Free.Bytes, s.stuck = 10, true
		began := time.Now()
		if err := j.MakeRoom(context.WithoutCancel(t.Context()), "t", disk.Size{}); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > 2*hurryMost || s.attempts() != "t/a" {
			t.Errorf("took %v", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), hurryMost/2)
		defer cancel()
		if err := j.MakeRoom(ctx, "t", disk.Size{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want that the caller has no more time", err)
		}
	})
}

func TestEvictClone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, s, _ := open(t, Config{}, `
			t/idle 1h 10; tree x 1h 5 needed
			t/leased 1h 10 leased
			t/kept 1h 10; upper u 1h 10 kept
			t/work 1h 10; discard d 1h 10
			t/stuck 1h 10`)
		s.fail["t/stuck"] = errors.New("it is stuck")
		for key, want := range map[string]string{
			"t/idle": "", "t/leased": "it is in use: in use by a container", "t/kept": "kept by its volume", "t/work": "1 discards stand on it",
			"t/stuck": "it is stuck", "t/none": `there is no clone "t/none"`,
		} {
			err := j.EvictClone(t.Context(), key)
			if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", key, err, want)
			}
		}
		if got := s.inv.Trash.Bytes; got != 15 {
			t.Errorf("%d bytes in the trash", got)
		}
		events := j.Events()
		if len(events) != 1 || events[0].Reason != OnDemand || events[0].Clone != "t/idle" || events[0].Size.Bytes != 15 {
			t.Errorf("%+v", events)
		}
	})
}

// TestFindings are said once per change.
func TestFindings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, s, _ := open(t, Config{WarnSize: 100, Limits: Limits{DiscardTTL: day, MaxSize: 400, MinFree: .1}},
			"t/a 1h 300 leased; upper u 1h 90 leased vwork\n t/big 1h 450 leased")
		upper := func(n, free int64) {
			s.set(func() { s.inv.Clones[0].Parts[0].Size.Bytes, s.inv.Space.Free.Bytes = n, free })
		}
		seen := 0
		for _, step := range []struct {
			name        string
			upper, free int64
			want        []string // the events that come
		}{
			{"a clone that is too large", 90, 500, []string{`warning: the clone of https://host/t/big for subject "t" takes 450 B, which is more than MAX_SIZE=400 B`}},
			{"nothing new", 90, 500, nil},
			{"too much is written, and MAX_SIZE is exceeded", 110, 500, []string{
				"warning: the clones take 410 B, MAX_SIZE is 400 B: 10 B too much, and nothing more can be evicted: held by",
				`warning: volume "vwork" has 110 B written to workspace u, 20 B of it since the last sweep: more than WORKSPACE_WARN_SIZE=100 B`,
			}},
			{"a little more of it", 115, 500, nil},
			{"twice as much", 230, 500, []string{
				"warning: the clones take 530 B, MAX_SIZE is 400 B: 130 B too much", `warning: volume "vwork" has 230 B written to workspace u, 115 B of it`,
			}},
			{"the disk is full", 230, 50, []string{
				"warning: 50 B and 0 inodes of 1000 B and 0 are free, MIN_FREE is 10%: 50 B too much, and nothing more can be evicted",
				`warning: volume "vwork" has 230 B written to workspace u, 0 B of it since the last sweep: it holds the disk below MIN_FREE=10%, and eviction can't help`,
			}},
			{"still", 230, 50, nil},
			{"it has room", 60, 500, []string{"cleared: 50 B and 0", "cleared: the clones take", "cleared: volume", "cleared: volume"}},
		} {
			upper(step.upper, step.free)
			if _, err := j.Sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
			events := j.Events()[seen:]
			seen += len(events)
			ok := len(events) == len(step.want)
			for i := 0; ok && i < len(events); i++ {
				ok = strings.HasPrefix(fmt.Sprint(events[i].Type, ": ", events[i].Text), step.want[i])
			}
			if !ok {
				t.Errorf("%s: got %+v, want %q", step.name, events, step.want)
			}
			if step.name == "still" {
				all := j.Stats().Findings
				of := slices.DeleteFunc(j.Findings(), func(f Finding) bool { return f.Volume != "vwork" })
				if len(all) != 5 || len(of) != 2 || of[0].Size.Bytes != 230 || of[0].Since.IsZero() {
					t.Errorf("of the volume: %+v; of all: %+v", of, all)
				}
			}
		}
		if left := j.Findings(); len(left) != 1 {
			t.Errorf("not cleared: %+v", left)
		}
	})
}

// TestEventsAreBounded: the figures are not.
func TestEventsAreBounded(t *testing.T) {
	j := &Janitor{}
	kinds := []Kind{Discard, Cache}
	for i := range eventsKept + 10 {
		j.events.add(Event{Type: Evicted, Kind: &kinds[i%2], Reason: Expired, Text: fmt.Sprint(i), Size: disk.Size{Bytes: 2, Inodes: 1}})
	}
	events := j.Events()
	if len(events) != eventsKept || events[0].Text != "10" || events[eventsKept-1].Text != fmt.Sprint(eventsKept+9) {
		t.Errorf("%d events from %s to %s", len(events), events[0].Text, events[len(events)-1].Text)
	}
	want := []Count{
		{Type: Evicted, Kind: &kinds[0], Reason: Expired, Times: 505, Size: disk.Size{Bytes: 1010, Inodes: 505}},
		{Type: Evicted, Kind: &kinds[1], Reason: Expired, Times: 505, Size: disk.Size{Bytes: 1010, Inodes: 505}},
	}
	if got := j.Stats().Counts; !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestClones(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, _, _ := open(t, Config{}, "t/a 1h 10; tree x 1h 5; tree y 1h 5; upper u 1h 7 kept\n t/b 2h 30")
		list, err := j.Clones(t.Context())
		if err != nil || len(list) != 2 || list[0].Clone != "t/b" || list[1].Size.Bytes != 27 || list[1].Held != Kept ||
			list[1].Parts["tree"].Bytes != 10 || list[1].Parts["workspace"].Bytes != 7 {
			t.Errorf("%+v, %v", list, err)
		}
	})
}

// TestASweepThatIsCutOff says so, and goes on the next time.
func TestASweepThatIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, s, _ := open(t, Config{Limits: Limits{DiscardTTL: day}}, "t/a 1h 10; discard d 30h 5; discard e 29h 5")
		ctx, cancel := context.WithCancelCause(t.Context())
		cause := errors.New("the plugin is stopping")
		cancel(cause)
		if r, err := j.Sweep(ctx); !errors.Is(err, cause) || len(r.Evicted) > 0 {
			t.Errorf("%+v, %v", r, err)
		}
		if r, err := j.Sweep(t.Context()); err != nil || len(r.Evicted) != 2 || s.attempts() != "t/a/d, t/a/e" {
			t.Errorf("%+v, %v", r, err)
		}
	})
}
