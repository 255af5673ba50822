package main

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// runs is how often each start is measured. It is odd, so that the median is one of the measured
// times.
const runs = 5

// compareTimes compares the first start with later ones, and the later ones with starts on an empty
// local volume.
func (d *demo) compareTimes(ctx context.Context) error {
	title("7. How long it takes")
	if _, err := d.quiet(ctx, "volume", "create", emptyName); err != nil {
		return err
	}
	starts := []string{volumeName, emptyName}
	for _, name := range starts {
		d.print(d.timedArgs(name)...)
	}
	times := map[string][]time.Duration{}
	for range runs {
		for _, name := range starts { // in turns, so that noise affects both
			begin := time.Now()
			if _, err := d.quiet(ctx, d.timedArgs(name)...); err != nil {
				return err
			}
			times[name] = append(times[name], time.Since(begin))
		}
	}
	warm, empty := median(times[volumeName]), median(times[emptyName])

	coldText := seconds(d.cold)
	if d.reused {
		coldText = "-  (the clone existed)"
	}
	fmt.Printf("\n    %-58s %s\n", "cold: volume create and first start, with the clone", coldText)
	fmt.Printf("    %-58s %s\n", fmt.Sprintf("warm: start with the volume, median of %d", runs), seconds(warm))
	fmt.Printf("    %-58s %s\n\n", fmt.Sprintf("start with an empty local volume, median of %d", runs), seconds(empty))
	if warm <= empty {
		say("The time for the checkout is too small to be measured beside the start of a container.")
	} else {
		say("The checkout takes %s of the warm start. The engine needs the rest to start a container.", seconds(warm-empty))
	}
	return nil
}

// timedArgs returns the arguments to start a container that ends at once.
func (d *demo) timedArgs(volume string) []string {
	args := append([]string{"run", "--rm", "--network", "none", "--mount", mount(volume)}, d.image.flags...)
	return append(args, d.image.name, "true")
}

func median(times []time.Duration) time.Duration {
	return slices.Sorted(slices.Values(times))[len(times)/2]
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.3f s", d.Seconds()) }
