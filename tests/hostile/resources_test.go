package hostile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/helmdeck/repos/tests/shipped"
	"github.com/helmdeck/repos/tests/siege"
	"github.com/helmdeck/repos/tests/wait"
)

// The limits for the victim's mounts during an attack, on two processors, as factors of the
// durations without an attack in the same run.
const (
	mostMedian = 3
	mostMax    = 10
)

const (
	// quietTime is how long the victim is measured alone before each attack, and again after it.
	// The quiet median is that of both, because the load of the machine changes. The quiet maximum
	// is that of all quiet measurements so far, because the maximum of a few seconds says little.
	quietTime = 2 * time.Second
	// firstTime is how long the victim is measured alone before the first attack. It is as long as the longest attack,
	// because the maximum of a few mounts cannot be compared with the maximum of many.
	firstTime = 30 * time.Second
	// leftTime is how long after the end of an attack its work may still go on.
	leftTime = 30 * time.Second

	// The plugin's limits are short, so that the tests reach them. All honest work here takes less.
	workTimeout  = 30 * time.Second
	fetchTimeout = 20 * time.Second
	mountWait    = 7 * time.Second

	// attackTime is how long the victim is measured during an attack at least. It is longer than mountWait, so that it
	// includes the work that continues after the attackers have their answers.
	attackTime = mountWait + 2*time.Second
)

// resourceSettings returns the settings of the plugin under attack.
func resourceSettings() []string {
	return []string{fmt.Sprint("MOUNT_WAIT=", mountWait), fmt.Sprint("WORK_TIMEOUT=", workTimeout), fmt.Sprint("FETCH_TIMEOUT=", fetchTimeout)}
}

// siegeMemory is the memory limit of the plugin's cgroup, in bytes.
const siegeMemory = 3 << 30

// resources runs the attacks that cost work, one after the other because each is measured.
type resources struct {
	limit   wait.Limit
	stage   *siege.Stage
	victim  *siege.Victim
	plugin  *shipped.Plugin
	runs    int
	longest time.Duration // the longest of the victim's mounts without an attack
}

// TestResources runs every attack that costs work, and prints a line for each and the counts.
func TestResources(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	r := &resources{limit: t}
	for _, dir := range []string{"stage", "small"} {
		if err := os.Mkdir(filepath.Join(scratch, dir), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	if r.stage, err = siege.NewStage(filepath.Join(scratch, "stage")); err != nil {
		t.Fatal(err)
	}
	defer r.stage.Close()
	if r.victim, err = siege.NewVictim(filepath.Join(scratch, "small")); err != nil {
		t.Fatal(err)
	}
	defer r.victim.Close()
	defer func() {
		if err := r.closePlugin(); err != nil {
			t.Error(err)
		}
	}()
	cases, held := 0, 0
	run := func(name string, f func(t *testing.T)) {
		t.Run("resources/"+name, func(t *testing.T) {
			cases++
			defer func() {
				noteFall(t)
				if !t.Failed() {
					held++
				}
			}()
			f(t)
		})
	}
	for _, a := range siege.Attacks() {
		run(a.Name, func(t *testing.T) { r.attack(t, a) })
	}
	for _, c := range contentions() {
		run(c.name, func(t *testing.T) { r.contend(t, c) })
	}
	fmt.Printf("%d cases of resources: %d held, %d fell\n", cases, held, cases-held)
}

// outcome is the result of one attack.
type outcome struct {
	warm, cold           siege.Sample // the victim's mounts during the attack
	quiet, quietCold     siege.Sample // its mounts before and after the attack
	victim, end, deleted error
	early                error // why clones that follow one another ended before the victim was measured
	left                 error
	leftTime             time.Duration // how long the attack's work was allowed to go on after its end
	clean                time.Duration // how long it did go on
	peak                 int64         // the plugin's peak memory, in bytes
	kills                int           // by the OOM killer
	answers              string
}

// fails ends a case for which the plugin did not hold, with the end of its log.
func fails(t *testing.T, fell []error, log string) {
	t.Helper()
	if len(fell) == 0 {
		return
	}
	t.Errorf("%v\nthe end of the plugin's log:\n%s", errors.Join(fell...), log[max(0, len(log)-5000):])
	noteFall(t, fell...)
}

// attack runs one attack and prints its line. If a case falls, the next one gets a new plugin.
func (r *resources) attack(t *testing.T, a siege.Attack) {
	if err := r.ensurePlugin(); err != nil {
		t.Fatal(err)
	}
	before := quietTime
	if r.longest == 0 {
		before = firstTime
	}
	o, err := r.measureAttack(t.Context(), a, before, quietTime)
	if err != nil {
		t.Fatal(err)
	}
	fell := r.judge(t.Context(), a, o)
	if len(fell) == 0 {
		return
	}
	log := r.plugin.Log()
	if err := r.closePlugin(); err != nil {
		t.Fatal(err)
	}
	fails(t, fell, log)
}

// measureAttack runs the attack beside the victim, which is measured alone before and after it for the
// given times. It returns an error if the test itself fails, or if the victim fails without an attack.
func (r *resources) measureAttack(ctx context.Context, a siege.Attack, before, after time.Duration) (o outcome, err error) {
	volumes, err := r.stage.Volumes(a)
	if err != nil {
		return o, err
	}
	if o.quiet, o.quietCold, err = r.measureQuiet(a, before); err != nil {
		return o, fmt.Errorf("the victim alone: %w", err)
	}
	p := r.plugin
	if err := p.ResetPeak(); err != nil {
		return o, err
	}
	kills := p.OOMKills()
	watched, stop := context.WithCancel(ctx)
	defer stop()
	go p.WatchPeak(watched)
	during, cancel := context.WithTimeout(ctx, attackTime+a.Longer)
	defer cancel()
	assault := siege.Begin(during, p.Daemon, volumes, mountWait, r.stage.Following(a))
	o.warm, o.cold, o.victim = r.measure(during, a)
	assault.Wait()
	ended := time.Now()
	o.early = assault.Early()
	o.end, o.leftTime = assault.End(), leftTime
	if a.Alone {
		o.leftTime += max(workTimeout, fetchTimeout)
	}
	afterwards, cancel := context.WithTimeout(ctx, o.leftTime)
	defer cancel()
	if !a.Alone {
		o.deleted = assault.Delete(afterwards)
	}
	o.left = p.AwaitEnd(afterwards, siege.OfAttacker)
	o.clean, o.answers, o.peak, o.kills = time.Since(ended), assault.Answers(), p.PeakRSS(), p.OOMKills()-kills
	if o.left == nil && o.victim == nil {
		warm, cold, err := r.measureQuiet(a, after)
		if err != nil {
			return o, fmt.Errorf("the victim alone, afterwards: %w", err)
		}
		o.quiet, o.quietCold = append(o.quiet, warm...), append(o.quietCold, cold...)
	}
	r.longest = max(r.longest, o.quiet.Max())
	return o, nil
}

// judge prints the line of an attack, and returns why the plugin did not hold.
func (r *resources) judge(ctx context.Context, a siege.Attack, o outcome) (fell []error) {
	check := func(what string, err error) {
		if err != nil {
			fell = append(fell, fmt.Errorf("%s: %w", what, err))
		}
	}
	check("the plugin", r.plugin.Alive(ctx))
	check("the victim", o.victim)
	figures, err := compare("mount", o.quiet.P50(), r.longest, o.warm)
	check("the victim", errors.Join(err, checkMax(r.longest, o.warm)))
	if a.ColdToo {
		cold, err := compare(", cold mount", o.quietCold.P50(), o.quietCold.Max(), o.cold)
		check("the victim, cold", errors.Join(err, checkMax(o.quietCold.Max(), o.cold)))
		figures += cold
	}
	check("the attack", o.early)
	check("unmount and remove", o.end)
	check("delete", o.deleted)
	check(fmt.Sprintf("left after %v", o.leftTime), o.left)
	verdict, clean := "held", fmt.Sprintf("clean after %.1f s", o.clean.Seconds())
	if len(fell) > 0 {
		verdict = "FELL"
	}
	if o.left != nil {
		clean = "not clean"
	}
	fmt.Printf("%s  %-10s %-16s %s; plugin peak %d MiB, %d killed for memory, %s; attacker got %s; %s\n",
		verdict, "resources", a.Name, figures, o.peak>>20, o.kills, clean, o.answers, a.Abuses)
	for _, err := range fell {
		fmt.Printf("      because %.160s\n", strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return fell
}

// ensurePlugin starts a plugin if none runs.
func (r *resources) ensurePlugin() (err error) {
	if r.plugin == nil {
		r.plugin, err = r.startPlugin()
	}
	return err
}

// startPlugin starts a plugin, with more settings.
func (r *resources) startPlugin(settings ...string) (*shipped.Plugin, error) {
	r.runs++
	p, err := shipped.Start(r.limit, shipped.Config{
		Program: cmp.Or(os.Getenv("HELMDECK_REPOS"), "../../build/helmdeck-repos"), Filesystem: "../../build/plugin/rootfs",
		Dir: filepath.Join(scratch, fmt.Sprint("siege", r.runs)), Memory: siegeMemory, Env: append(resourceSettings(), settings...),
	})
	if err != nil {
		return nil, err
	}
	if p.NoCgroup != nil && r.runs == 1 {
		fmt.Printf("NO MEMORY CGROUP on this machine: the plugin may use all memory, and no case tests the limit of 3 GiB: %v\n", p.NoCgroup)
	}
	return p, nil
}

func (r *resources) closePlugin() error {
	if r.plugin == nil {
		return nil
	}
	err := r.plugin.Close()
	r.plugin = nil
	return err
}

// measureQuiet measures the victim without an attack, with the same kinds of mounts as during the
// attack.
func (r *resources) measureQuiet(a siege.Attack, long time.Duration) (warm, cold siege.Sample, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), long)
	defer cancel()
	return r.measure(ctx, a)
}

// measure makes the victim mount until ctx ends: warm mounts, and cold ones at the same time if
// they count in the attack.
func (r *resources) measure(ctx context.Context, a siege.Attack) (warm, cold siege.Sample, err error) {
	var all sync.WaitGroup
	var coldErr error
	if a.ColdToo {
		all.Go(func() { cold, coldErr = r.victim.Cold(ctx, r.plugin.Daemon) })
	}
	warm, err = r.victim.Warm(ctx, r.plugin.Daemon)
	all.Wait()
	return warm, cold, errors.Join(err, coldErr)
}

// errSlow is the kind of the errors of compare that depend on the load of the machine.
var errSlow = errors.New("slow")

// compare formats the victim's durations beside the quiet ones. It returns an error if their median
// exceeds its limit.
func compare(what string, quietMedian, quietMax time.Duration, attacked siege.Sample) (figures string, err error) {
	median := siege.Ratio(attacked.P50(), quietMedian)
	switch {
	case len(attacked) == 0:
		err = errors.New("nothing was measured")
	case median > mostMedian:
		err = fmt.Errorf("%w: the median is %.1f times the quiet one, want at most %d", errSlow, median, mostMedian)
	}
	return fmt.Sprintf("%s p50 %s max %s", what, siege.Compare(quietMedian, attacked.P50()), siege.Compare(quietMax, attacked.Max())), err
}

// checkMax returns an error if the longest duration exceeds its limit.
func checkMax(quietMax time.Duration, attacked siege.Sample) error {
	if most := siege.Ratio(attacked.Max(), quietMax); most > mostMax {
		return fmt.Errorf("%w: the maximum is %.1f times the quiet one, want at most %d", errSlow, most, mostMax)
	}
	return nil
}
