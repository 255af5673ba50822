package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// git runs the machine's git in dir, without any configuration, and returns its output.
// The error includes git's message.
func git(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = dir
	cmd.Env = gitEnv()
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return "", fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(exit.Stderr))
	}
	if err != nil {
		return "", fmt.Errorf("git %s: %w", strings.Join(args, " "), err)
	}
	return string(out), nil
}

// gitEnv returns an environment without any configuration of git.
func gitEnv() []string {
	return []string{
		"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "LC_ALL=C",
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_TERMINAL_PROMPT=0",
	}
}

// updateInPlace updates a working tree in place, as a design without overlays does before
// each use.
func updateInPlace(ctx context.Context, dir string) error {
	return updateInPlaceTo(ctx, dir, "origin/main")
}

// updateInPlaceTo is updateInPlace to a revision, after a fetch of some branches or, without
// any, of all.
func updateInPlaceTo(ctx context.Context, dir, rev string, branches ...string) error {
	for _, args := range [][]string{
		append([]string{"fetch", "-q", "origin"}, branches...), {"reset", "-q", "--hard", rev}, {"clean", "-qffdx"},
	} {
		if _, err := git(ctx, dir, args...); err != nil {
			return err
		}
	}
	return nil
}

// checkClean returns an error if git sees a change in dir. It writes nothing there.
func checkClean(ctx context.Context, dir string) error {
	out, err := git(ctx, dir, "--no-optional-locks", "status", "--porcelain")
	if err == nil && out != "" {
		err = fmt.Errorf("%s is not clean: %.200s", dir, out)
	}
	return err
}

// nulSeparated splits git's output with -z.
func nulSeparated(out string) []string {
	return strings.Split(strings.TrimSuffix(out, "\x00"), "\x00")
}
