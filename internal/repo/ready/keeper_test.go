package ready

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/sirupsen/logrus/hooks/test"

	"github.com/helmdeck/repos/internal/clone"
	"github.com/helmdeck/repos/internal/git/giterror"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/volume"
	"github.com/helmdeck/repos/internal/work"
)

// fake is a Clone in memory.
type fake struct {
	mu     sync.Mutex
	began  time.Time
	recent []meta.Recent
	fail   map[string]error // by ref; the empty ref is any
	took   time.Duration    // how long a Ready takes
	calls  []string
	answer time.Time // of the remote, to a Mount or a Ready
	asks   bool      // the remote answers each Ready
	count  func(int) // is called with 1 and -1 around a Ready
}

func (f *fake) mounted(options ...string) {
	o := map[string]string{"repo": "https://h/r"}
	for i := 0; i < len(options); i += 2 {
		o[options[i]] = options[i+1]
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.recent = append(f.recent, meta.Recent{Options: meta.OptionsOf(o), At: time.Now()})
}

func (f *fake) lastAnswer() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.answer
}

func (f *fake) Recent() []meta.Recent {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.recent)
}

func (f *fake) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func (f *fake) Ready(ctx context.Context, s clone.Spec) (meta.Resolution, error) {
	if !work.JobOf(ctx).Yields() || work.JobOf(ctx).Urgent() {
		panic("the work does not yield, or is urgent")
	}
	f.count(1)
	defer f.count(-1)
	time.Sleep(f.took)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, fmt.Sprint(s.Ref, " ", time.Since(f.began)))
	if f.asks {
		f.answer = time.Now()
	}
	if err := f.fail[""]; err != nil {
		return meta.Resolution{}, err
	}
	return meta.Resolution{Commit: "c"}, f.fail[s.Ref.String()]
}

// want checks the calls since the last want.
func (f *fake) want(t *testing.T, when string, want ...string) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if !slices.Equal(f.calls, want) {
		t.Errorf("%s: %q, want %q", when, f.calls, want)
	}
	f.calls = nil
}

// run runs a Keeper without jitter for clones of these subjects until the test ends.
func run(t *testing.T, interval time.Duration, subjects ...string) (*Keeper, []*fake) {
	t.Helper()
	log := logrus.New()
	log.SetOutput(io.Discard)
	group := work.NewGroup()
	t.Cleanup(group.Close)
	var fakes []*fake
	var targets []Target
	for i, s := range subjects {
		f := &fake{began: time.Now(), fail: make(map[string]error), count: func(int) {}}
		fakes = append(fakes, f)
		targets = append(targets, Target{Clone: f, Key: fmt.Sprint(s, "/", i), Subject: s, Asked: func() int64 { return 0 }, Answered: f.lastAnswer})
	}
	schemes, err := volume.ParseSchemes("")
	if err != nil {
		t.Fatal(err)
	}
	k := New(Config{
		Targets: func() []Target { return targets }, Work: group, Schemes: schemes, Interval: interval, Now: time.Now, Log: log,
	})
	k.random = func() float64 { return 0.5 }
	group.Go(k.Run)
	return k, fakes
}

func TestBackoff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k, fakes := run(t, 10*time.Minute, "s")
		f := fakes[0]
		f.mounted("ref", "a")
		f.mounted("ref", "b")
		f.mounted("ref", "n", "refresh", "never")
		pass := func(d time.Duration) { time.Sleep(d); synctest.Wait() }
		pass(21 * time.Minute)
		f.want(t, "in turn", "a 10m0s", "b 10m0s", "a 20m0s", "b 20m0s")
		f.set(func() { f.fail[""] = &giterror.Error{Kind: giterror.KindTimeout} })
		pass(4 * time.Hour)
		f.want(t, "the remote does not answer", "a 30m0s", "a 50m0s", "a 1h30m0s", "a 2h30m0s", "a 3h30m0s")
		f.set(func() { f.fail = map[string]error{"a": &giterror.Error{Kind: giterror.KindRefNotFound}} })
		pass(time.Hour) // from 4h21m
		f.want(t, "it answers, and a is gone", "a 4h30m0s", "b 4h30m0s", "b 4h40m0s", "a 4h50m0s", "b 4h50m0s", "b 5h0m0s", "b 5h10m0s", "b 5h20m0s")
		f.set(func() { f.fail = nil })
		pass(30 * time.Minute)
		f.want(t, "a is back", "a 5h30m0s", "b 5h30m0s", "a 5h40m0s", "b 5h40m0s", "a 5h50m0s", "b 5h50m0s")
		f.set(func() { f.recent = nil })
		pass(time.Hour)
		f.want(t, "a day later")
		if len(k.plans) > 0 {
			t.Errorf("left: %v", k.plans)
		}
	})
}

// A checkout that fails for hours is one line of the log.
func TestWarnsOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k, fakes := run(t, 10*time.Minute, "s")
		f := fakes[0]
		f.mounted("ref", "a")
		f.mounted("ref", "b")
		log := test.NewLocal(k.config.Log)
		pass := func(when string, want int) {
			t.Helper()
			time.Sleep(5 * time.Hour)
			synctest.Wait()
			if got := len(log.AllEntries()); got != want {
				t.Errorf("%s: %d lines, want %d", when, got, want)
			}
			log.Reset()
		}
		f.set(func() { f.fail["a"] = &giterror.Error{Kind: giterror.KindRefNotFound} })
		pass("a is gone", 1)
		pass("still", 0)
		f.set(func() { f.fail = map[string]error{"": &giterror.Error{Kind: giterror.KindTimeout}} })
		pass("the remote does not answer", 1)
		f.set(func() { f.fail = nil })
		pass("all is well", 0)
		f.set(func() { f.fail = map[string]error{"a": &giterror.Error{Kind: giterror.KindRefNotFound}} })
		pass("a is gone again", 1)
	})
}

// A poll does not look at the options of clones that are not due: with 10,000 clones that would take
// most of a second.
func TestPollParsesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("it measures memory")
	}
	f := new(fake)
	f.mounted("ref", "a")
	targets := []Target{{Clone: f, Key: "s/1", Answered: f.lastAnswer}}
	k := New(Config{Targets: func() []Target { return targets }, Interval: time.Hour, Now: time.Now})
	if n := testing.AllocsPerRun(10, k.begin); n > 5 {
		t.Errorf("a poll allocates %v times for a clone that is not due", n)
	}
}

// A Mount that the remote has answered ends the backoff of its clone, if that was because
// the remote did not answer.
func TestMountEndsBackoff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, fakes := run(t, 10*time.Minute, "s")
		f := fakes[0]
		f.mounted("ref", "a")
		f.set(func() { f.fail[""] = &giterror.Error{Kind: giterror.KindTimeout} })
		pass := func(d time.Duration) { time.Sleep(d); synctest.Wait() }
		pass(2 * time.Hour)
		f.want(t, "the remote does not answer", "a 10m0s", "a 30m0s", "a 1h10m0s")
		f.set(func() { f.fail, f.answer = nil, time.Now() })
		pass(25 * time.Minute)
		f.want(t, "a Mount got an answer", "a 2h10m0s", "a 2h20m0s")

		// It answers, and then the fetch fails: what a Mount hears is no news.
		f.set(func() { f.fail, f.asks = map[string]error{"": &giterror.Error{Kind: giterror.KindLimit}}, true })
		for range 12 {
			pass(10 * time.Minute) // to 4h25m
			f.set(func() { f.answer = time.Now() })
		}
		f.want(t, "the fetch fails", "a 2h30m0s", "a 2h50m0s", "a 3h30m0s")
	})
}

// Waits differ a little, are bounded, and the first one after a start is random.
func TestJitter(t *testing.T) {
	t.Parallel()
	k := New(Config{Interval: 10 * time.Minute, Now: time.Now})
	now := time.Now()
	for range 1000 {
		if d := k.wait(0); d < 9*time.Minute || d > 11*time.Minute {
			t.Fatalf("wait %v", d)
		}
		if d := k.wait(100); d < 54*time.Minute || d > 66*time.Minute {
			t.Fatalf("wait %v after many failures", d)
		}
		clear(k.plans)
		k.take(Target{Key: "after a start", Answered: new(fake).lastAnswer}, now, now.Add(-time.Hour))
		if d := k.plans["after a start"].due.Sub(now); d < 0 || d > 10*time.Minute {
			t.Fatalf("first after %v", d)
		}
	}
}

func TestOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, fakes := run(t, 0, "s")
		fakes[0].mounted("ref", "a")
		time.Sleep(20 * time.Hour)
		synctest.Wait()
		fakes[0].want(t, "off")
	})
}

// Many requests at once cost one refresh that runs and one that begins after all of them.
func TestManyRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k, fakes := run(t, 0, "s")
		f := fakes[0]
		f.mounted("ref", "a")
		f.took = 2 * time.Second
		url, err := volume.ParseURL("https://h/r", k.config.Schemes)
		if err != nil {
			t.Fatal(err)
		}
		targets := []Target{{Clone: f, Key: "s/" + url.Hash(), Subject: "s", Asked: func() int64 { return 0 }, Answered: f.lastAnswer}}
		k.config.Targets = func() []Target { return targets }
		var all sync.WaitGroup
		for i := range 50 {
			all.Go(func() {
				time.Sleep(time.Duration(i) * 20 * time.Millisecond)
				if list, err := k.Refresh(t.Context(), Request{Repo: "https://h/r"}); err != nil || len(list) != 1 || list[0].Commit != "c" {
					t.Errorf("got %+v, %v", list, err)
				}
			})
		}
		all.Wait()
		f.want(t, "50 in a second", "a 2s", "a 4s")
		if len(k.next) > 0 {
			t.Errorf("left: %v", k.next)
		}
	})
}

// A clone that takes longer than several polls is refreshed once at a time.
func TestOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k, fakes := run(t, 10*time.Minute, "s")
		f, now := fakes[0], 0
		f.took = 5 * time.Minute
		f.count = func(n int) {
			if now += n; now > 1 {
				t.Errorf("%d at a time", now)
			}
		}
		f.mounted("ref", "a")
		time.Sleep(40 * time.Minute)
		synctest.Wait()
		f.want(t, "in turn", "a 15m0s", "a 30m0s")
		if len(k.plans) != 1 {
			t.Errorf("plans %v", k.plans)
		}
	})
}

// A few clones are refreshed at a time, and subjects take turns.
func TestTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, fakes := run(t, time.Hour, "a", "a", "a", "a", "a", "b", "b", "b")
		var mu sync.Mutex
		now, most := map[bool]int{}, map[bool]int{}
		for i, f := range fakes {
			f.took = 30 * time.Second
			f.count = func(n int) {
				mu.Lock()
				defer mu.Unlock()
				now[i < 5] += n
				most[i < 5] = max(most[i < 5], now[i < 5])
				if now[true]+now[false] > turns.Slots {
					t.Errorf("%d and %d at a time", now[true], now[false])
				}
			}
			f.mounted("ref", "m")
		}
		time.Sleep(70 * time.Minute)
		synctest.Wait()
		if most[true] == 0 || most[false] < 2 {
			t.Errorf("at most %d and %d at a time", most[true], most[false])
		}
		for _, f := range fakes {
			if len(f.calls) != 1 {
				t.Errorf("calls: %q", f.calls)
			}
		}
	})
}
