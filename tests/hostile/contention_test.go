package hostile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/tests/shipped"
	"github.com/helmdeck/repos/tests/siege"
	"github.com/helmdeck/repos/tests/testgit"
	"github.com/helmdeck/repos/tests/wait"
)

// The limits for what the plugin has for all.
const (
	// mostMemory is the most that the plugin's own process may have, in bytes, however many
	// workspaces are inspected and pushed.
	mostMemory = 128 << 20
	stopTime   = 5 * time.Second // from SIGTERM to the end of the process
	hangUpTime = time.Second     // from the end of the clients to that of their work

	// contendTime is how long the victim is measured during an attack, and half of it before and after.
	contendTime = 8 * time.Second
)

// contention is an attack on what the plugin has for all subjects: turns, memory, processors and
// connections.
type contention struct {
	name, abuses string
	// uses is what the victim does besides mounts in each round, with a limit for the median, but for copying. It does the rest of
	// allUses in some rounds: nothing of that may fail.
	uses []string
	// begin prepares the attack and returns it. It ends with its context, as clients that hang up.
	begin func(b *battle) (attack func(ctx context.Context), err error)
	// begun returns an error until the attack is under way.
	begun func(b *battle) error
	// beside measures and checks what is special about the attack, while it runs: the victim is measured
	// until it returns. It may be nil.
	beside func(b *battle) (figures string, err error)
	// settings are those of the plugin that differ from resourceSettings.
	settings []string
	// long is how long the victim is measured in place of contendTime, if it is not 0: the attack takes long to get under way.
	long time.Duration
}

// battle is a plugin with a tenant and an attacker.
type battle struct {
	*testing.T
	plugin  *shipped.Plugin
	metrics string // METRICS_ADDR, as the plugin's log names it
	victim  *tenant
	admin   http.Client
	server  string // of the repository for attackers
	made    int
	trash   float64                           // files that the plugin deletes in a second on the quiet machine
	ending  func() (speed float64, err error) // ends what was prepared, and returns how many files the plugin handles in a second
	// dying, if it is not nil, begins more of that, and returns when it is under way: the plugin is told to
	// end then.
	dying func(ctx context.Context) error

	mu      sync.Mutex
	answers map[string]int // to the attacker, by their first line
}

// workspaceID is what differs in the answers about workspaces.
var workspaceID = regexp.MustCompile(`\b[0-9a-f]{16}\b`)

// note counts an answer to the attacker.
func (b *battle) note(what string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil {
		line, _, _ := strings.Cut(err.Error(), "\n")
		what += ": " + workspaceID.ReplaceAllString(line, "ID")
	}
	b.answers[what]++
}

// answered returns how many answers the attacker has.
func (b *battle) answered() (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, count := range b.answers {
		n += count
	}
	return n
}

// said returns the most frequent answers.
func (b *battle) said() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	lines := slices.SortedFunc(maps.Keys(b.answers), func(x, y string) int {
		return cmp.Or(b.answers[y]-b.answers[x], strings.Compare(x, y))
	})
	var list []string
	for _, line := range lines[:min(len(lines), 3)] {
		list = append(list, fmt.Sprintf("%d x %.100s", b.answers[line], line))
	}
	return cmp.Or(strings.Join(list, ", "), "nothing yet")
}

// workspace creates a volume of an attacker and mounts it. It returns the directory and the ID of
// the workspace.
func (b *battle) workspace(attacker, repo string) (dir, id string, err error) {
	return b.workspaceOf(siege.SubjectPrefix+attacker, repo)
}

// workspaceOf is workspace for any subject.
func (b *battle) workspaceOf(subject, repo string) (dir, id string, err error) {
	b.made++
	return mountWorkspace(b.Context(), b.plugin, b.volume(), map[string]string{"repo": repo, "subject": subject})
}

// volume returns the volume of the last workspace.
func (b *battle) volume() string { return fmt.Sprint("attack-", b.made) }

// mountWorkspace creates a volume, mounts it, and returns the directory and the ID of the workspace.
func mountWorkspace(ctx context.Context, p *shipped.Plugin, volume string, options map[string]string) (dir, id string, err error) {
	if err := p.Create(ctx, volume, options); err != nil {
		return "", "", err
	}
	if dir, err = p.Mount(ctx, volume, "container"); err != nil {
		return "", "", err
	}
	list, err := p.Admin.Workspaces(ctx, api.Filter{Volume: volume})
	if err != nil || len(list) != 1 {
		return "", "", fmt.Errorf("the workspaces of %s are %v, %w", volume, list, err)
	}
	return dir, list[0].ID, nil
}

// commitIn commits a new file in a workspace.
func (b *battle) commitIn(dir, name string) {
	b.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(name+"\n"), 0o644); err != nil {
		b.Fatal(err)
	}
	testgit.GitAny(b, dir, "add", name)
	testgit.GitAny(b, dir, "commit", "-q", "-m", name)
}

// loop calls f from n goroutines again and again, until ctx ends, and returns when all have returned.
func loop(ctx context.Context, n int, f func(ctx context.Context, i int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			for ctx.Err() == nil {
				f(ctx, i)
				time.Sleep(time.Millisecond) // a plugin that has ended answers at once
			}
		})
	}
	all.Wait()
}

// fight is the outcome of a contention.
type fight struct {
	quiet, attacked map[string]siege.Sample
	refused         error // a use of the victim that failed
	special, said   string
	failed          error // beside
	hangUp, stop    time.Duration
	left            error // by clients that hung up
	idle            error // nothing was under way when SIGTERM came
	peak            int64
}

// contend runs one contention, and prints its line.
func (r *resources) contend(t *testing.T, c contention) {
	if err := r.closePlugin(); err != nil {
		t.Fatal(err)
	}
	fell, log := r.contendOnce(t, c)
	fails(t, fell, log)
}

// contendOnce returns why the plugin did not hold, and its log.
func (r *resources) contendOnce(t *testing.T, c contention) (fell []error, log string) {
	p, err := r.startPlugin(append(c.settings, "METRICS_ADDR=127.0.0.1:0")...)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		log = p.Log()
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}()
	b := &battle{T: t, plugin: p, answers: make(map[string]int)}
	b.admin.Transport = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(filepath.Dir(p.Socket()), "admin.sock"))
	}}
	if b.metrics, err = p.MetricsAddr(); err != nil {
		t.Fatal(err)
	}
	if b.server, err = pushed(); err != nil {
		t.Fatal(err)
	}
	if b.victim, err = newTenant(b, r.victim); err != nil {
		t.Fatal(err)
	}
	o := b.fight(c, cmp.Or(c.long, contendTime))
	return b.judge(c, o), ""
}

// fight measures the victim on the quiet machine, during the attack for the given time, and after it.
// Then the attack begins again, and the plugin is told to end.
func (b *battle) fight(c contention, long time.Duration) (o fight) {
	attack, err := c.begin(b)
	if err != nil {
		b.Fatal(err)
	}
	if o.quiet, err = b.victim.useFor(long/2, c.uses); err != nil {
		b.Fatalf("the victim alone: %v", err)
	}
	if err := b.plugin.ResetPeak(); err != nil {
		b.Fatal(err)
	}
	assault := b.launch(c, attack)
	during, over := context.WithCancel(b.Context())
	defer over()
	var beside sync.WaitGroup
	if c.beside == nil {
		time.AfterFunc(long, over)
	} else {
		beside.Go(func() {
			defer over()
			o.special, o.failed = c.beside(b)
		})
	}
	o.attacked, o.refused = b.victim.use(during, c.uses)
	beside.Wait()
	assault.end()
	o.said = b.said() // without the refusals of a plugin that ends
	o.hangUp, o.left = b.awaitIdle()
	o.peak = b.plugin.PeakRSS()
	if o.left == nil && o.refused == nil {
		after, err := b.victim.useFor(long/2, c.uses)
		if err != nil {
			b.Fatalf("the victim alone, afterwards: %v", err)
		}
		for use, sample := range after {
			o.quiet[use] = append(o.quiet[use], sample...)
		}
	}
	assault = b.launch(c, attack)
	defer assault.end()
	if b.dying != nil {
		ctx, cancel := context.WithTimeout(b.Context(), answerTime)
		defer cancel()
		if err := b.dying(ctx); err != nil {
			o.idle = fmt.Errorf("%w: nothing was seen under way that SIGTERM could end: %w", errSlow, err)
		}
	}
	began := time.Now()
	if err := syscall.Kill(b.plugin.Pid(), syscall.SIGTERM); err != nil {
		b.Fatal(err)
	}
	select {
	case <-b.plugin.Ended():
	case <-time.After(stopTime):
	}
	o.stop = time.Since(began)
	o.peak = max(o.peak, b.plugin.PeakRSS())
	return o
}

// assault is a running attack.
type assault struct {
	cancel context.CancelFunc
	done   sync.WaitGroup
}

// launch begins an attack and waits until it is under way.
func (b *battle) launch(c contention, attack func(ctx context.Context)) *assault {
	ctx, cancel := context.WithCancel(b.Context())
	a := &assault{cancel: cancel}
	a.done.Go(func() { attack(ctx) })
	if c.begun == nil {
		return a
	}
	if err := wait.Until(b, func() error { return c.begun(b) }); err != nil {
		a.end()
		b.Fatalf("the attack does not begin: %v; the attacker got %s", err, b.said())
	}
	return a
}

func (a *assault) end() {
	a.cancel()
	a.done.Wait()
}

// awaitIdle waits until the plugin does nothing for those who hung up: it has no child, and its own
// process computes no more. It returns how long that took.
func (b *battle) awaitIdle() (took time.Duration, err error) {
	const pause, least = 50 * time.Millisecond, 10 * time.Millisecond
	began := time.Now()
	for before := b.computed(); ; {
		time.Sleep(pause)
		children, err := b.plugin.Children()
		if err != nil {
			return 0, err
		}
		now := b.computed()
		if len(children) == 0 && now-before <= least {
			return time.Since(began), nil
		}
		if time.Since(began) > hangUpTime {
			return 0, fmt.Errorf("%v after the clients hung up, the plugin has the children %.200q, and its process computed for %v in %v", hangUpTime, children, now-before, pause)
		}
		before = now
	}
}

// computed returns the processor time of the plugin's own process.
func (b *battle) computed() time.Duration {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", b.plugin.Pid()))
	if err != nil {
		b.Fatal(err)
	}
	// The name in parentheses may have spaces. The times are the 12th and 13th fields after it, in
	// hundredths of a second.
	var user, system int64
	fields := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
	if _, err := fmt.Sscan(fields[11]+" "+fields[12], &user, &system); err != nil {
		b.Fatal(err)
	}
	return time.Duration(user+system) * 10 * time.Millisecond
}

// judge prints the line of a contention, and returns why the plugin did not hold.
func (b *battle) judge(c contention, o fight) (fell []error) {
	check := func(what string, err error) {
		if err != nil {
			fell = append(fell, fmt.Errorf("%s: %w", what, err))
		}
	}
	check("the victim", o.refused)
	var figures []string
	for _, use := range append([]string{mounts}, c.uses...) {
		text, err := compare(use, o.quiet[use].P50(), o.quiet[use].Max(), o.attacked[use])
		if use == copying && errors.Is(err, errSlow) {
			err = nil // it waits until the disk has what all subjects wrote
		}
		check("the victim's "+use, err)
		figures = append(figures, text)
	}
	check("beside it", o.failed)
	check("left", o.left)
	check("SIGTERM", o.idle)
	if o.peak > mostMemory {
		check("memory", fmt.Errorf("the plugin's process had %d MiB, want at most %d", o.peak>>20, mostMemory>>20))
	}
	if o.stop > stopTime {
		check("SIGTERM", fmt.Errorf("the process runs after %v", o.stop))
	}
	verdict := "held"
	if len(fell) > 0 {
		verdict = "FELL"
	}
	if o.special != "" {
		figures = append(figures, o.special)
	}
	fmt.Printf("%s  %-10s %-16s %s; plugin peak %d MiB, idle %.2f s after clients hung up, ended %.2f s after SIGTERM; attacker got %s; %s\n",
		verdict, "resources", c.name, strings.Join(figures, ", "), o.peak>>20, o.hangUp.Seconds(), o.stop.Seconds(), o.said, c.abuses)
	for _, err := range fell {
		fmt.Printf("      because %.300s\n", strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return fell
}
