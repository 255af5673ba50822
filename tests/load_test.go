package tests

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/helmdeck/repos/tests/invariant"
	"github.com/helmdeck/repos/tests/siege"
	"github.com/helmdeck/repos/tests/wait"
)

// loadTime is set by `make test-load`. A load of less than a minute has fewer containers, because
// all must start twice.
var loadTime = flag.Duration("load", 15*time.Second, "the least time in which containers start and stop")

const (
	loadClones = 10
	// loadWorkers is the number of slots that step at the same time. The containers of the other
	// slots keep running.
	loadWorkers = 8
	// loadWarmUp is how long the gauges may grow, because the clones get their chains of trees, and
	// buffers their size.
	loadWarmUp = time.Minute
)

// loadBranches are the branches that move.
var loadBranches = []string{"main", "release-1.0"}

// load is an engine on which containers start and stop all the time.
type load struct {
	*testing.T
	e          *engine
	out        string // where containers write what they see, on the host
	containers int
	branches   []*branch
	pid        int // of the plugin
	// network is a container whose network the others share. If each had its own network, the end
	// of many at the same time could deadlock an engine before 20.10.27 (libnetwork: getSvcRecords
	// against processEndpointDelete).
	network string

	mu       sync.Mutex
	starts   int
	runs     siege.Sample // how long each docker run took
	problems int

	took                       time.Duration
	samples                    samples
	before, after              []int64        // the gauges before and after the load, when no container runs
	goroutines, goroutinesLeft map[string]int // the goroutines before and after the load, by the function that started them
}

// TestLoad runs a hundred containers on ten clones, starts and stops them in a loop, and moves the
// branches meanwhile. Each start must succeed, and each container must see the files of its commit.
// Afterwards the numbers of mounts, descriptors, goroutines and directories must be as before, and
// the plugin's memory must not have grown.
func TestLoad(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	l := &load{T: t, out: t.TempDir(), containers: 100}
	if *loadTime < time.Minute {
		l.containers = 20
	}
	l.prepare()
	l.before = l.awaitQuiet()
	l.goroutines = l.dumpGoroutines()
	l.pid = l.e.pluginPID(t, l.pid)
	defer l.print()
	l.run()
	l.samples.wantFlat(t)
	l.after = l.awaitQuiet()
	if got := l.e.pluginPID(t, 0); got != l.pid {
		t.Fatalf("the plugin's process %d has ended: the process is now %d", l.pid, got)
	}
	for i, g := range gauges {
		if g.left >= 0 && l.after[i] > l.before[i]+g.left {
			t.Errorf("%s: %d after the load, %d before", g.name, l.after[i], l.before[i])
		}
	}
	l.goroutinesLeft = l.dumpGoroutines()
	wantSameGoroutines(t, l.goroutines, l.goroutinesLeft)
}

// prepare starts the engine and makes the plugin clone all repositories.
func (l *load) prepare() {
	l.Helper()
	// Checkpoints expire soon, so that the number of directories does not grow.
	l.e = own(l.T, []string{"CHECKPOINT_TTL=5s", "SWEEP_INTERVAL=5s"})
	for n := range loadClones {
		r := newRemote(l.T)
		for _, name := range loadBranches {
			b := &branch{name: name, remote: r, subject: fmt.Sprint("load", n)}
			b.push(l.T) // from now on every repository has different commits
			l.branches = append(l.branches, b)
			l.e.sh(l.T, mount("", b.options()...), "git status")
		}
	}
	l.pid = l.e.pluginPID(l.T, 0)
}

// run starts and stops the containers until the time is over and all have started twice. Meanwhile
// it moves the branches.
func (l *load) run() {
	l.Helper()
	ctx, stop := context.WithCancel(l.Context())
	l.network = l.e.docker(l.T, "run", "--detach", "--network", "host", "--stop-signal", "KILL", image, "sleep", "1000000")
	slots := make(chan *slot, l.containers)
	for n := range l.containers * 4 / 5 { // one of four slots has two containers
		slots <- newSlot(l, n)
	}
	var workers sync.WaitGroup
	defer workers.Wait()
	defer stop()
	for range loadWorkers {
		workers.Go(func() {
			for ctx.Err() == nil {
				s := <-slots
				if err := s.step(); err != nil && l.problem(s, err) {
					stop()
				}
				slots <- s
			}
		})
	}
	random := rand.New(rand.NewPCG(0, 0))
	began := time.Now()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for ctx.Err() == nil && (time.Since(began) < *loadTime || l.startCount() < 2*l.containers) {
		l.branches[random.IntN(len(l.branches))].push(l.T)
		l.samples = append(l.samples, l.sample(time.Since(began)))
		<-tick.C
	}
	l.took = time.Since(began)
	stop()
	workers.Wait()
	close(slots)
	for s := range slots {
		workers.Go(func() {
			if err := s.end(); err != nil {
				l.problem(s, err)
			}
		})
	}
	workers.Wait()
	l.e.docker(l.T, "rm", "--force", l.network)
}

// problem reports an error of a slot. It returns true after the tenth error.
func (l *load) problem(s *slot, err error) (enough bool) {
	l.Errorf("slot %d, %s, step %d: %v", s.n, s.kind, s.steps, err)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.problems++
	return l.problems >= 10
}

// addStart counts a start. run is how long a docker run took; 0 if it was another command.
func (l *load) addStart(run time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.starts++
	if run > 0 {
		l.runs = append(l.runs, run)
	}
}

// startCount returns the number of starts so far.
func (l *load) startCount() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.starts
}

// awaitQuiet waits until nothing is left of any container, and returns the values of the gauges
// then.
func (l *load) awaitQuiet() []int64 {
	l.Helper()
	wait.For(l.T, "containers and volumes", func() error {
		containers, err := l.e.Try("ps", "--all", "--quiet")
		volumes, volErr := l.e.Try("volume", "ls", "--quiet")
		if left := strings.Fields(containers + " " + volumes); len(left) > 0 {
			err = errors.Join(err, fmt.Errorf("left: %q", left))
		}
		return errors.Join(err, volErr)
	})
	for _, b := range l.branches {
		l.e.awaitReclaimed(l.T, b.subject)
	}
	l.e.awaitUnmounted(l.T)
	l.e.awaitEmpty(l.T, "trash")
	l.e.awaitNoChildren(l.T)
	wait.For(l.T, "the plugin's data", func() error { return invariant.Structure(l.e.Data()) })
	return l.sample(0).values
}

// print prints the results, even if a check has failed.
func (l *load) print() {
	if len(l.samples) == 0 {
		return
	}
	pushes := 0
	for _, b := range l.branches {
		pushes += len(b.commits) - 1
	}
	fmt.Printf("%d containers on %d clones for %v: %d starts, %.1f/s; docker run %d times: p50 %v p99 %v longest %v; %d pushes; %d problems\n",
		l.containers, loadClones, l.took.Round(time.Second), l.starts, float64(l.starts)/l.took.Seconds(),
		len(l.runs), l.runs.P50().Round(time.Millisecond), l.runs.P99().Round(time.Millisecond), l.runs.Max().Round(time.Millisecond),
		pushes, l.problems)
	const row = "%-34s %8v %8v %8v %8v %8v\n"
	fmt.Printf(row, "of the plugin", "before", "begin", "middle", "end", "after")
	for i, g := range gauges {
		var after any = ""
		if l.after != nil {
			after = l.after[i]
		}
		first, middle, last := l.samples.course(i)
		fmt.Printf(row, g.name, l.before[i], first, middle, last, after)
	}
	fmt.Printf(row, "goroutines", sum(l.goroutines), "", "", "", sum(l.goroutinesLeft))
}
