package soak

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/tests/built"
	"github.com/helmdeck/repos/tests/shipped"
	"github.com/helmdeck/repos/tests/siege"
	"github.com/helmdeck/repos/tests/testdir"
	"github.com/helmdeck/repos/tests/wait"
)

const (
	honestWorkers = 8 // each with its own subject and repository
	// Nobody attacks during the first quarter of the duration.
	quietPart = 4
	// leftTime is how long after the end of an attack its work may still go on.
	leftTime = 30 * time.Second
	// workLimit ends work that nobody deletes.
	workLimit = time.Minute
	// mountWait is the longest time of an honest mount beside an attack.
	mountWait = 30 * time.Second
	// attackTime is the least duration of an attack. It may last up to twice as long.
	attackTime = 8 * time.Second
)

// besieged is a plugin as it ships, with honest workers and one attacker.
type besieged struct {
	*soak
	plugin *shipped.Plugin
	stage  *siege.Stage

	mu       sync.Mutex
	attacked bool         // the attacks have begun
	quiet    siege.Sample // the honest mounts before the attacks
	beside   siege.Sample // and during them
	attacks  []string
	problems []error // the first twenty
	failed   int     // how many steps of honest workers failed
}

// TestSiege runs honest subjects that mount, write, verify and unmount, first alone and then beside
// a hostile one. It prints how long their mounts took.
func TestSiege(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	b := &besieged{soak: &soak{T: t, checkpoints: make(map[string]string), evicted: make(map[string]bool)}}
	b.prepare()
	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), *duration)
	defer cancel()
	var all sync.WaitGroup
	for n := range honestWorkers {
		w := &worker{soak: b.soak, n: n, rand: rand.New(rand.NewPCG(uint64(n), 6))}
		all.Go(func() {
			for ctx.Err() == nil && b.alive() {
				if err := w.workHonestly(); err != nil {
					b.problem(true, fmt.Errorf("honest worker %d, step %d: %w", n, w.step, err))
				}
			}
		})
	}
	// The first half of the quiet time does not count, because the mounts in it clone.
	sleep(ctx, *duration/quietPart/2)
	b.locked(func() { b.quiet = nil })
	sleep(ctx, *duration/quietPart/2)
	b.locked(func() { b.attacked = true })
	enemy := rand.New(rand.NewPCG(uint64(began.UnixNano()), 7))
	var next []siege.Attack // all attacks in random order, again and again
	for ctx.Err() == nil && b.alive() {
		if len(next) == 0 {
			next = siege.Attacks()
			enemy.Shuffle(len(next), func(i, j int) { next[i], next[j] = next[j], next[i] })
		}
		b.attack(ctx, next[0], enemy)
		next = next[1:]
	}
	all.Wait()
	b.finishSiege()
	fmt.Printf("%d honest subjects: %d mounts alone: p50 %v p99 %v max %v; %d beside %d attacks in %v: p50 %v p99 %v max %v; %d failed; plugin peak %d MiB, %d killed for memory; attacks:%s\n",
		honestWorkers, len(b.quiet), round(b.quiet.P50()), round(b.quiet.P99()), round(b.quiet.Max()),
		len(b.beside), len(b.attacks), time.Since(began).Round(time.Second), round(b.beside.P50()), round(b.beside.P99()), round(b.beside.Max()),
		b.failed, b.plugin.PeakRSS()>>20, b.plugin.OOMKills(), strings.Join(b.attacks, ""))
	for _, err := range b.problems {
		t.Error(err)
	}
}

func round(d time.Duration) time.Duration { return d.Round(time.Millisecond) }

// sleep waits for d or until ctx ends. It sets the pace of the run, and does not wait for an event.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// prepare starts the servers and the plugin.
func (b *besieged) prepare() {
	b.Helper()
	dir := filepath.Join(scratch, "siege")
	repositories, stage := filepath.Join(dir, "repos"), filepath.Join(dir, "stage")
	if err := errors.Join(os.MkdirAll(repositories, 0o755), os.MkdirAll(stage, 0o755)); err != nil {
		b.Fatal(err)
	}
	server, err := gitserver.Start(repositories)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { server.Close() })
	if b.stage, err = siege.NewStage(stage); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { b.stage.Close() })
	for n := range honestWorkers {
		r, err := newRepo(server, n)
		if err != nil {
			b.Fatal(err)
		}
		b.repos = append(b.repos, r)
	}
	if err := built.Check(built.Plugin); err != nil {
		b.Fatal(err)
	}
	b.plugin, err = shipped.Start(b, shipped.Config{
		Program: program, Filesystem: "../../build/plugin/rootfs", Dir: filepath.Join(scratch, "p"), Memory: 3 << 30,
		Env: []string{fmt.Sprint("MOUNT_WAIT=", mountWait), fmt.Sprint("WORK_TIMEOUT=", workLimit), fmt.Sprint("FETCH_TIMEOUT=", workLimit), "MIN_FREE=5%", "CHECKPOINT_TTL=1m"},
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if b.Failed() {
			log := b.plugin.Log()
			b.Logf("the end of the plugin's log:\n%s", log[max(0, len(log)-10_000):])
		}
		if err := b.plugin.Close(); err != nil {
			b.Error(err)
		}
	})
	if b.plugin.NoCgroup != nil {
		fmt.Printf("NO MEMORY CGROUP on this machine: the plugin may use all memory: %v\n", b.plugin.NoCgroup)
	}
	b.d, b.config = b.plugin.Daemon, b.plugin.Config
	b.d.Client.Timeout = wait.Most(b) // a plugin that hangs must fail the test, not hang it
	b.onMount = b.addMount
}

// addMount adds the duration of an honest mount.
func (b *besieged) addMount(took time.Duration) {
	b.locked(func() {
		if b.attacked {
			b.beside = append(b.beside, took)
		} else {
			b.quiet = append(b.quiet, took)
		}
	})
}

// locked calls f with b.mu locked.
func (b *besieged) locked(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f()
}

// problem records an error. It keeps the first twenty, and counts those of honest workers.
func (b *besieged) problem(honest bool, err error) {
	b.locked(func() {
		if honest {
			b.failed++
		}
		if len(b.problems) < 20 {
			b.problems = append(b.problems, err)
		}
	})
}

// alive reports whether the plugin's process still runs.
func (b *besieged) alive() bool {
	select {
	case <-b.plugin.Ended():
		return false
	default:
		return true
	}
}

// workHonestly runs one operation of an honest subject, chosen at random.
func (w *worker) workHonestly() error {
	w.step++
	switch p := w.rand.IntN(100); {
	case p < 80:
		return w.private()
	case p < 90:
		return w.shared()
	case p < 95:
		return errors.Join(w.pick().push(w.text()), w.private())
	}
	return w.recreate()
}

// attack runs an attack. After two of three attacks an operator deletes its clones.
func (b *besieged) attack(ctx context.Context, a siege.Attack, random *rand.Rand) {
	volumes, err := b.stage.Volumes(a)
	if err != nil {
		b.problem(false, err)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, attackTime+time.Duration(random.Int64N(int64(attackTime))))
	defer cancel()
	assault := siege.Begin(ctx, b.d, volumes, mountWait, nil)
	<-ctx.Done()
	errs := []error{assault.End()}
	if !a.Alone && random.IntN(3) > 0 {
		afterwards, cancel := context.WithTimeout(b.Context(), leftTime)
		defer cancel()
		errs = append(errs, assault.Delete(afterwards))
	}
	if err := errors.Join(errs...); err != nil {
		b.problem(false, fmt.Errorf("the end of %s: %w", a.Name, err))
	}
	b.locked(func() { b.attacks = append(b.attacks, " "+a.Name) })
}

// finishSiege removes all volumes, waits until the work that nobody deleted has reached its limit,
// and checks that nothing is left.
func (b *besieged) finishSiege() {
	b.Helper()
	if err := b.plugin.Alive(b.Context()); err != nil {
		b.Error(err)
		return
	}
	list, err := b.d.List(b.Context())
	if err != nil {
		b.Error(err)
	}
	for _, v := range list {
		if err := b.d.Remove(b.Context(), v.Name); err != nil {
			b.Error(err)
		}
	}
	// Builds take turns, and the limit is for each of them.
	pinned, err := b.plugin.Pinned(b.Context(), siege.OfAttacker)
	if err != nil {
		b.Error(err)
	}
	ctx, cancel := context.WithTimeout(b.Context(), time.Duration(max(len(pinned), 1))*workLimit+leftTime)
	defer cancel()
	if err := b.plugin.AwaitEnd(ctx, siege.OfAttacker); err != nil {
		b.Errorf("left: %v", err)
	}
	if err := wait.Until(b, func() error {
		points, err := testdir.Mounts(b.config.DataDir())
		for _, p := range points {
			if p.Path != b.config.DataDir() {
				err = errors.Join(err, fmt.Errorf("%s is mounted", p.Path))
			}
		}
		return err
	}); err != nil {
		b.Errorf("left: %v", err)
	}
}
