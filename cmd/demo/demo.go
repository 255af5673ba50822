package main

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Names of the demo's volumes and containers. Only volumes with these names, and the containers
// that use them, are ever removed.
const (
	volumeName = "helmdeck-demo"
	emptyName  = "helmdeck-demo-empty" // a local volume of the engine, for comparison
	first      = "helmdeck-demo-1"
	second     = "helmdeck-demo-2"
)

// demo is one run of the demo. The function run lists its steps.
type demo struct {
	docker
	source
	image
	sample *sample // nil for the user's repository

	reused bool          // the clone existed before
	cold   time.Duration // the time of create and first start, even if the clone existed
	mark   string        // unique text that the first container leaves in the cache
}

// stamp is the part of .git/helmdeck.json that the demo reads.
type stamp struct {
	Volume string
	Commit string
	Reused bool
}

// cleanUp removes the containers that use the demo's volumes, and then the volumes, if they exist.
func (d *demo) cleanUp(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	// A container whose start was interrupted may appear, or be removed, meanwhile.
	const tries = 20
	for i := 0; ; i++ {
		err := errors.Join(
			d.removeAll(ctx, []string{"ps", "--all", "--quiet", "--filter", "volume=" + volumeName, "--filter", "volume=" + emptyName}, "rm", "--force"),
			d.removeAll(ctx, []string{"volume", "ls", "--quiet", "--filter", "name=^" + volumeName + "$", "--filter", "name=^" + emptyName + "$"}, "volume", "rm"),
		)
		if err == nil || i == tries || ctx.Err() != nil {
			return err
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// removeAll passes the output of one docker command to another, which removes it.
func (d *demo) removeAll(ctx context.Context, list []string, remove ...string) error {
	out, err := d.quiet(ctx, list...)
	if err != nil || out == "" {
		return err
	}
	_, err = d.quiet(ctx, append(remove, strings.Fields(out)...)...)
	return err
}

// mount returns the value of docker's --mount for a named volume.
func mount(name string) string { return "type=volume,src=" + name + ",dst=/w" }

// anonymousMount returns the value of --mount for a volume that docker run creates and removes. The
// value is a line of CSV.
func (s source) anonymousMount() string {
	fields := []string{"type=volume", "volume-driver=helmdeck/repos"}
	for _, option := range s.options() {
		fields = append(fields, "volume-opt="+option)
	}
	var b strings.Builder
	w := csv.NewWriter(&b)
	w.Write(append(fields, "dst=/w")) // a strings.Builder returns no errors
	w.Flush()
	return strings.TrimSuffix(b.String(), "\n")
}

// runArgs returns the arguments to run a script in a new container, in the mount unless mount is
// empty. The script itself changes to that directory: with --workdir the engine would mount the
// volume once more before the start, and even a new clone would be reported as reused.
func (d *demo) runArgs(mount string, script ...string) []string {
	args := []string{"run", "--rm", "--network", "none"}
	if mount != "" {
		args = append(args, "--mount", mount)
		script = append([]string{"cd /w"}, script...)
	}
	args = append(args, d.image.flags...)
	return append(args, d.image.name, "sh", "-euc", lines(script))
}

// startArgs returns the arguments to start a container that waits for scripts.
func (d *demo) startArgs(name string) []string {
	args := []string{"run", "--detach", "--name", name, "--network", "none", "--mount", mount(volumeName)}
	args = append(args, d.image.flags...)
	return append(args, d.image.name, "sleep", "3600")
}

// script runs and shows a script in a running container.
func (d *demo) script(ctx context.Context, container string, script ...string) (string, error) {
	return d.show(ctx, "exec", "--workdir", "/w", container, "sh", "-euc", lines(script))
}

// lines formats a script for reading: one line per command, unless there is only one.
func lines(script []string) string {
	if len(script) == 1 {
		return script[0]
	}
	return "\n    " + strings.Join(script, "\n    ") + "\n"
}

const printStamp = "cat .git/helmdeck.json"

func parseStamp(text string) (stamp, error) {
	var s stamp
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return s, fmt.Errorf(".git/helmdeck.json: %w: %q", err, text)
	}
	return s, nil
}
