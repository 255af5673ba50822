package bundle

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// identify finds out from which commit the release is made. Its time is the commit's, or SOURCE_DATE_EPOCH.
func (r *release) identify(ctx context.Context) error {
	changes, err := r.output(ctx, "git", "status", "--porcelain")
	if err != nil {
		return err
	}
	if changes != "" && !r.Dirty {
		return fmt.Errorf("the tree has changes that are not committed; commit them, or allow them with DIRTY=1:\n%s", changes)
	}
	commit, err := r.output(ctx, "git", "log", "-1", "--format=%H %ct")
	if err != nil {
		return err
	}
	hash, seconds, _ := strings.Cut(commit, " ")
	if epoch := os.Getenv("SOURCE_DATE_EPOCH"); epoch != "" {
		seconds = epoch
	}
	unix, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH=%q: want seconds since 1970", seconds)
	}
	r.time = time.Unix(unix, 0)
	r.comment = "built from commit " + hash + " with " + runtime.Version()
	if changes != "" {
		r.comment += ", with changes that are not committed"
	}
	return nil
}

func (r *release) output(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = r.Root
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, exit.Stderr)
		}
		return "", fmt.Errorf("%s %s: %w", name, args[0], err)
	}
	return strings.TrimSpace(string(out)), nil
}

// make runs a target of the Makefile.
func (r *release) make(ctx context.Context, env []string, args ...string) error {
	cmd := exec.CommandContext(ctx, "make", args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = r.Root, r.Log, r.Log
	cmd.Env = append(environment(), env...)
	// A group of its own, because make does not end the children of its children.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // one that a shell just began may have missed the signal
			return ctx.Err()
		}
		return fmt.Errorf("make %s: %w", strings.Join(args, " "), err)
	}
	return nil
}

// environment is the process's environment without what would change the programs that are compiled, and without the
// variables of the make that runs this. With FRESH a root filesystem does not come from the user's cache.
func environment() []string {
	var kept []string
	for _, v := range os.Environ() {
		switch name, _, _ := strings.Cut(v, "="); name {
		case "MAKEFLAGS", "MFLAGS", "MAKEOVERRIDES", "MAKELEVEL", "GOFLAGS", "GOAMD64", "GOARM64", "GOEXPERIMENT", "GOOS", "GOARCH",
			"ARCH", "OUT", "LOCK", "FORCE", "STRICT":
		default:
			kept = append(kept, v)
		}
	}
	return append(kept, "GOAMD64=v1", "GOARM64=v8.0", "FRESH=1")
}
