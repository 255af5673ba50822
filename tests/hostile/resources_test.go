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
)

// What the victim may lose on two processors: factors of its quiet values in the same run.
const (
	mostMedian = 3
	mostMax    = 10
)

const (
	// quietTime is how long the victim is measured alone before each attack. All that was measured alone so far counts:
	// the longest of a few seconds says little.
	quietTime = 3 * time.Second
	mountWait = 8 * time.Second
	// attackTime is how long it is measured beside an attack at least; longer than mountWait, so that also what goes on
	// after the attackers have got their answer is seen.
	attackTime = mountWait + 3*time.Second
	// leftTime is how long after the end of an attack something of it may still be there.
	leftTime = 30 * time.Second

	// The limits are short, so that the tests see them; but all that is honest here takes less.
	workTimeout  = 30 * time.Second
	fetchTimeout = 20 * time.Second
)

// resourceSettings are those of the plugin that is attacked.
func resourceSettings() []string {
	return []string{fmt.Sprint("MOUNT_WAIT=", mountWait), fmt.Sprint("WORK_TIMEOUT=", workTimeout), fmt.Sprint("FETCH_TIMEOUT=", fetchTimeout)}
}

// siegeMemory is what the plugin's cgroup may have.
const siegeMemory = 3 << 30

// resources is the group of the attacks that cost work: one after the other, for each is measured.
type resources struct {
	stage  *siege.Stage
	victim *siege.Victim
	plugin *shipped.Plugin
	runs   int
	quiet  siege.Sample
	cold   siege.Sample // the quiet ones
}

// TestResources makes every attack that costs work, and prints a line for each and a count.
func TestResources(t *testing.T) {
	r := &resources{}
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
	for _, a := range siege.Attacks() {
		t.Run("resources/"+a.Name, func(t *testing.T) {
			cases++
			r.attack(t, a)
			if !t.Failed() {
				held++
			}
		})
	}
	fmt.Printf("%d cases of resources: %d held, %d fell\n", cases, held, cases-held)
}

// attack makes one attack and prints its line. A plugin that fell is not used again.
func (r *resources) attack(t *testing.T, a siege.Attack) {
	if err := r.needPlugin(); err != nil {
		t.Fatal(err)
	}
	volumes, err := r.stage.Volumes(a)
	if err != nil {
		t.Fatal(err)
	}
	p := r.plugin
	if err := r.measureQuiet(a); err != nil {
		t.Fatalf("the victim alone: %v", err)
	}
	if err := p.ResetPeak(); err != nil {
		t.Fatal(err)
	}
	kills := p.Kills()

	ctx, cancel := context.WithTimeout(t.Context(), attackTime+a.Longer)
	defer cancel()
	assault := siege.Begin(ctx, p.Daemon, volumes, mountWait)
	warm, cold, victimErr := r.measure(ctx, a)
	assault.Wait()
	ended := time.Now()
	endErr := assault.End()
	after := leftTime
	var deleteErr error
	if a.Alone {
		after += max(workTimeout, fetchTimeout)
	} else {
		deleteErr = assault.Delete()
	}
	leftErr := p.AwaitEnd(t.Context(), after, siege.Attacked)
	took := time.Since(ended)

	var fell []string
	check := func(what string, err error) {
		if err != nil {
			t.Errorf("%s: %v", what, err)
			fell = append(fell, fmt.Sprintf("%s: %.160s", what, strings.ReplaceAll(err.Error(), "\n", "; ")))
		}
	}
	check("the plugin", p.Alive(t.Context()))
	check("the victim", victimErr)
	figures := "mount p50 " + siege.Beside(r.quiet.P50(), warm.P50()) + " max " + siege.Beside(r.quiet.Max(), warm.Max())
	check("the victim", within(r.quiet, warm))
	if a.ColdToo {
		figures += ", cold p50 " + siege.Beside(r.cold.P50(), cold.P50()) + " max " + siege.Beside(r.cold.Max(), cold.Max())
		check("the victim's cold mounts", within(r.cold, cold))
	}
	check("unmount and remove", endErr)
	check("delete", deleteErr)
	check(fmt.Sprintf("left after %v", after), leftErr)
	verdict, clean := "held", fmt.Sprintf("clean after %.1f s", took.Seconds())
	if len(fell) > 0 {
		verdict = "FELL"
		if leftErr != nil {
			clean = "not clean"
		}
	}
	fmt.Printf("%s  %-10s %-16s %s; plugin peak %d MiB, %d killed for memory, %s; attacker got %s; %s\n",
		verdict, "resources", a.Name, figures, p.PeakRSS()>>20, p.Kills()-kills, clean, assault.Got(), a.Abuses)
	for _, line := range fell {
		fmt.Printf("      because %s\n", line)
	}
	if len(fell) > 0 {
		log := p.Log()
		t.Logf("the end of the plugin's log:\n%s", log[max(0, len(log)-5000):])
		if err := r.closePlugin(); err != nil {
			t.Fatal(err)
		}
	}
}

// needPlugin starts a plugin if there is none.
func (r *resources) needPlugin() error {
	if r.plugin != nil {
		return nil
	}
	r.runs++
	p, err := shipped.Start(shipped.Config{
		Program: cmp.Or(os.Getenv("HELMDECK_REPOS"), "../../build/helmdeck-repos"), Filesystem: "../../build/plugin/rootfs",
		Dir: filepath.Join(scratch, fmt.Sprint("siege", r.runs)), Bytes: 64 << 30, Files: 6_000_000, Memory: siegeMemory, Env: resourceSettings(),
	})
	if err != nil {
		return err
	}
	r.plugin = p
	if p.NoCgroup != nil && r.runs == 1 {
		fmt.Printf("NO MEMORY CGROUP on this machine: the plugin has all of its memory, and no case says anything about 3 GiB: %v\n", p.NoCgroup)
	}
	return nil
}

func (r *resources) closePlugin() error {
	if r.plugin == nil {
		return nil
	}
	err := r.plugin.Close()
	r.plugin = nil
	return err
}

// measureQuiet adds to the quiet samples.
func (r *resources) measureQuiet(a siege.Attack) error {
	ctx, cancel := context.WithTimeout(context.Background(), quietTime)
	defer cancel()
	warm, err := r.victim.Warm(ctx, r.plugin.Daemon)
	r.quiet = append(r.quiet, warm...)
	if err != nil || !a.ColdToo {
		return err
	}
	// Beside the warm ones, as they are measured later.
	ctx, cancel = context.WithTimeout(context.Background(), quietTime)
	defer cancel()
	_, r.cold, err = r.measure(ctx, a)
	return err
}

// measure has the victim mount until ctx ends.
func (r *resources) measure(ctx context.Context, a siege.Attack) (warm, cold siege.Sample, err error) {
	var wait sync.WaitGroup
	var coldErr error
	if a.ColdToo {
		wait.Go(func() { cold, coldErr = r.victim.Cold(ctx, r.plugin.Daemon) })
	}
	warm, err = r.victim.Warm(ctx, r.plugin.Daemon)
	wait.Wait()
	return warm, cold, errors.Join(err, coldErr)
}

// within says what the victim has lost beyond what it may.
func within(quiet, attacked siege.Sample) error {
	switch {
	case len(attacked) == 0:
		return errors.New("nothing was mounted")
	case siege.Times(attacked.P50(), quiet.P50()) > mostMedian:
		return fmt.Errorf("the median is %.1f times the quiet one, want %d at most", siege.Times(attacked.P50(), quiet.P50()), mostMedian)
	case siege.Times(attacked.Max(), quiet.Max()) > mostMax:
		return fmt.Errorf("the maximum is %.1f times the quiet one, want %d at most", siege.Times(attacked.Max(), quiet.Max()), mostMax)
	}
	return nil
}
