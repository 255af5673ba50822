package prebuild

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/helmdeck/repos/api"
)

// jobs returns jobs for repositories.
func jobs(repos ...string) (list []Job) {
	for _, r := range repos {
		j := job()
		j.Repo = r
		list = append(list, j)
	}
	return list
}

func TestOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now, most atomic.Int32
		var said []string
		b := Batch{
			Jobs: jobs("a", "b", "c", "d"), Parallel: 2,
			Run: func(_ context.Context, j Job, begin func(Result, string) error) (Result, error) {
				most.Store(max(most.Load(), now.Add(1)))
				defer now.Add(-1)
				if err := begin(Result{Repo: j.Repo}, "why"); err != nil {
					return Result{}, err
				}
				time.Sleep(time.Second)
				if j.Repo == "b" || j.Repo == "d" {
					return Result{}, errors.New("no " + j.Repo)
				}
				return Result{Repo: j.Repo, Commit: "c1", Did: Setup}, nil
			},
			Report: func(r Report) { said = append(said, strings.TrimSpace(r.State+" "+r.Repo+" "+r.Error)) },
		}
		failed, err := b.Once(t.Context())
		slices.Sort(said)
		if got := strings.Join(said, ","); got != "failed b no b,failed d no d,old a,old b,old c,old d,ready a,ready c" {
			t.Errorf("got %s", got)
		}
		if err == nil || err.Error() != "no b" || failed != 2 || most.Load() != 2 {
			t.Errorf("got %v, %d, %d at a time", err, failed, most.Load())
		}
	})
}

// TestSameState checks that the second of two jobs for one state runs no command, and that the first can go on.
func TestSameState(t *testing.T) {
	all := jobs("https://h/app", "https://h/app", "https://h/app")
	all[1].Options = map[string]string{"warm": "node_modules", "subject": "s", "ref": "main"}
	heads := map[string]string{"": "h1", "main": "h1", "dev": "h2"}
	all[2].Options = map[string]string{"warm": "node_modules", "subject": "s", "ref": "dev"}
	var ran []string
	b := Batch{
		Jobs: all, Parallel: 1, Report: func(Report) {},
		Run: func(_ context.Context, j Job, begin func(Result, string) error) (Result, error) {
			r := Result{Repo: j.Repo, Clone: "s/1", Did: Setup, States: []api.WarmState{{Path: "node_modules", Head: heads[j.Options["ref"]]}}}
			if err := begin(r, "why"); err != nil {
				return r, err
			}
			ran = append(ran, j.Options["ref"])
			return r, nil
		},
	}
	b.turn = make(chan struct{}, 1)
	run := func(i int) error {
		_, err := b.one(t.Context(), i, "", false)
		return err
	}
	if err := errors.Join(run(0), run(2), run(0)); err != nil {
		t.Error(err)
	}
	want := `the state of node_modules is that of another job too, "https://h/app" subject="s" warm="node_modules": `
	if err := run(1); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %v", err)
	}
	heads[""] = "h3" // such as of another lock file
	if err := errors.Join(run(0), run(1)); err != nil || !slices.Equal(ran, []string{"", "dev", "", "", "main"}) {
		t.Errorf("ran %q, %v", ran, err)
	}
}

// TestWatch checks when a job runs: at once, after the interval, after a push, and ever later after failures.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		begin := time.Now()
		push := make(chan api.AuditRecord)
		var mu sync.Mutex // of what follows
		fails := false
		commit := "c1"
		var runs []time.Duration
		var said []string
		b := Batch{
			Jobs: jobs("https://h/app.git"), Parallel: 1, Interval: time.Minute,
			Run: func(_ context.Context, j Job, _ func(Result, string) error) (Result, error) {
				mu.Lock()
				defer mu.Unlock()
				runs = append(runs, time.Since(begin))
				if fails {
					return Result{}, errors.New("broken")
				}
				return Result{Repo: j.Repo, Clone: "s/1", Commit: commit, Did: Nothing}, nil
			},
			Report: func(r Report) {
				mu.Lock()
				defer mu.Unlock()
				said = append(said, fmt.Sprintf("%s %s %v", r.State, r.Good, r.Again))
			},
			Pushes: func(ctx context.Context, _ time.Time, _ func(), f func(api.AuditRecord)) error {
				for {
					select {
					case r := <-push:
						f(r)
					case <-ctx.Done():
						return ctx.Err()
					}
				}
			},
		}
		done := make(chan struct{})
		go func() { b.Watch(ctx); close(done) }()
		sleep := func(d time.Duration) {
			mu.Unlock()
			defer mu.Lock()
			time.Sleep(d)
		}
		mu.Lock()
		sleep(2*time.Minute + 30*time.Second)
		if len(runs) != 3 || runs[0] != 0 || runs[1] < 54*time.Second || runs[1] > 66*time.Second {
			t.Errorf("runs at %v", runs)
		}
		runs, commit = nil, "c2"
		push <- api.AuditRecord{Repo: "https://h/other"}
		push <- api.AuditRecord{Repo: "https://h/other", Clone: "s/2"}
		push <- api.AuditRecord{Repo: "https://h/app/"}
		sleep(time.Second)
		if len(runs) != 1 || runs[0] != 2*time.Minute+30*time.Second {
			t.Errorf("after a push: runs at %v", runs)
		}
		if want := []string{"ready c1 false", "ready c1 true", "ready c1 true", "ready c2 false"}; !slices.Equal(said, want) {
			t.Errorf("got %q, want %q", said, want)
		}
		runs, fails = nil, true
		sleep(5 * time.Hour)
		for i := 1; i < len(runs); i++ {
			want := min(time.Minute<<i, maxBackoff)
			if d := runs[i] - runs[i-1]; d < want*9/10 || d > want*11/10 {
				t.Errorf("the wait %d is %v, want about %v", i, d, want)
			}
		}
		if last := said[len(said)-1]; last != "failed c2 false" || len(runs) < 8 {
			t.Errorf("got %q after %d runs", last, len(runs))
		}
		runs, fails = nil, false
		push <- api.AuditRecord{Repo: "http://H/x", Clone: "s/1"}
		sleep(90 * time.Second)
		if last := said[len(said)-2:]; len(runs) != 2 || !slices.Equal(last, []string{"ready c2 false", "ready c2 true"}) {
			t.Errorf("after the repair: runs at %v, %q", runs, last)
		}
		mu.Unlock()
		cancel()
		<-done
	})
}

// TestWatchReconnects checks that jobs run once when the plugin is back, and hear of pushes since the last one.
func TestWatchReconnects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		begin := time.Now()
		var mu sync.Mutex // of what follows
		var runs, asked, sinces []time.Duration
		b := Batch{
			Jobs: jobs("a", "b"), Parallel: 1, Interval: 24 * time.Hour,
			Run: func(context.Context, Job, func(Result, string) error) (Result, error) {
				mu.Lock()
				defer mu.Unlock()
				runs = append(runs, time.Since(begin))
				return Result{}, nil
			},
			Report: func(Report) {},
			Pushes: func(ctx context.Context, since time.Time, connected func(), f func(api.AuditRecord)) error {
				mu.Lock()
				asked, sinces = append(asked, time.Since(begin)), append(sinces, since.Sub(begin))
				n := len(asked)
				mu.Unlock()
				switch {
				case n == 1:
					connected()
					time.Sleep(time.Hour)
					f(api.AuditRecord{Repo: "a", Time: time.Now()})
					time.Sleep(time.Hour)
					return nil
				case n < 10:
					return errors.New("it is away")
				}
				connected()
				<-ctx.Done()
				return ctx.Err()
			},
		}
		time.AfterFunc(12*time.Hour, cancel)
		b.Watch(ctx)
		back := 2*time.Hour + (1+2+4+8+16+32+60+60+60)*time.Second
		if want := []time.Duration{0, 0, time.Hour, back, back}; !slices.Equal(runs, want) {
			t.Errorf("runs at %v, want %v", runs, want)
		}
		if len(asked) != 10 || asked[9] != back || sinces[0] != 0 || sinces[9] != time.Hour+1 {
			t.Errorf("asked at %v, for pushes since %v", asked, sinces)
		}
	})
}

// TestWatchEnds checks that Watch waits for what runs, and reports nothing about it.
func TestWatchEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cleaned := false
		b := Batch{
			Jobs: jobs("a", "b"), Parallel: 1, Interval: time.Minute,
			Run: func(ctx context.Context, _ Job, _ func(Result, string) error) (Result, error) {
				<-ctx.Done()
				time.Sleep(time.Second)
				cleaned = true
				return Result{}, ctx.Err()
			},
			Report: func(r Report) { t.Errorf("got %+v", r) },
		}
		time.AfterFunc(time.Second, cancel)
		if b.Watch(ctx); !cleaned {
			t.Error("Watch did not wait")
		}
	})
}

func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := jobs("https://h/a", "https://h/b")
		m := NewMetrics(all)
		m.Note(Report{Job: all[0], State: Ready, Time: time.Now()})
		m.Note(Report{Job: all[0], State: Old, Time: time.Now()})
		m.Note(Report{Job: all[1], State: Failed, Time: time.Now()})
		time.Sleep(90 * time.Second)
		const want = `
# HELP helmdeck_repos_prebuild_age_seconds How long it is since the state was found or made; there is none before the first time.
# TYPE helmdeck_repos_prebuild_age_seconds gauge
helmdeck_repos_prebuild_age_seconds{options="subject=\"s\" warm=\"node_modules\"",repo="https://h/a"} 90
# HELP helmdeck_repos_prebuild_failed_timestamp_seconds When that failed last; 0: never.
# TYPE helmdeck_repos_prebuild_failed_timestamp_seconds gauge
helmdeck_repos_prebuild_failed_timestamp_seconds{options="subject=\"s\" warm=\"node_modules\"",repo="https://h/a"} 0
helmdeck_repos_prebuild_failed_timestamp_seconds{options="subject=\"s\" warm=\"node_modules\"",repo="https://h/b"} 9.466848e+08
# HELP helmdeck_repos_prebuild_ready_timestamp_seconds When the state of a repository was found or made last; 0: never.
# TYPE helmdeck_repos_prebuild_ready_timestamp_seconds gauge
helmdeck_repos_prebuild_ready_timestamp_seconds{options="subject=\"s\" warm=\"node_modules\"",repo="https://h/a"} 9.466848e+08
helmdeck_repos_prebuild_ready_timestamp_seconds{options="subject=\"s\" warm=\"node_modules\"",repo="https://h/b"} 0
`
		if err := testutil.CollectAndCompare(m, strings.NewReader(want)); err != nil {
			t.Error(err)
		}
		if problems, err := testutil.CollectAndLint(m); err != nil || len(problems) > 0 {
			t.Errorf("%v, %v", problems, err)
		}
	})
}
