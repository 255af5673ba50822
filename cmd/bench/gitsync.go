package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// gitSync does the same as one round of kubernetes/git-sync, version 4, without its default of
// depth 1. Below root are a bare repository, a worktree for each commit, and the symlink
// "current" to the newest worktree, which a rename replaces. If nothing is new, gitSync checks
// the worktree, as git-sync does. It keeps earlier worktrees, which git-sync deletes
// afterwards. A depth of 0 is the whole history. With config.gitSync, the real program does it.
func (s *scene) gitSync(ctx context.Context, root string, depth int) error {
	if s.config.gitSync != "" {
		return s.realGitSync(ctx, root, depth)
	}
	url, bare, current := s.url(), filepath.Join(root, "bare"), filepath.Join(root, "current")
	fetch := []string{"fetch", "-q", "--no-auto-gc", "--prune", url, "refs/heads/main"}
	if depth > 0 {
		fetch = append(fetch, fmt.Sprintf("--depth=%d", depth))
	}
	git := func(ctx context.Context, dir string, args ...string) (string, error) {
		if s.far != nil {
			args = append([]string{"-c", s.far.trust()}, args...)
		}
		return git(ctx, dir, args...)
	}
	if err := os.Mkdir(root, 0o755); err == nil {
		if _, err := git(ctx, root, "init", "-q", "--bare", bare); err != nil {
			return err
		}
	} else if !errors.Is(err, os.ErrExist) {
		return err
	}
	out, err := git(ctx, bare, "ls-remote", "-q", url, "refs/heads/main", "refs/heads/main^{}")
	if err != nil {
		return err
	}
	id, _, ok := strings.Cut(out, "\t")
	if !ok {
		return fmt.Errorf("%s has no branch main", url)
	}
	if have, err := os.Readlink(current); err == nil && have == id {
		if err := checkCommit(ctx, current, id); err != nil {
			return err
		}
		_, err := git(ctx, current, "fsck", "--no-progress", "--connectivity-only")
		return err
	}
	tree := filepath.Join(root, id)
	for _, args := range [][]string{fetch, {"worktree", "add", "--force", "--detach", "--no-checkout", tree, id}} {
		if _, err := git(ctx, bare, args...); err != nil {
			return err
		}
	}
	if _, err := git(ctx, tree, "reset", "-q", "--hard", id, "--"); err != nil {
		return err
	}
	fresh := current + ".new"
	return errors.Join(os.Symlink(id, fresh), os.Rename(fresh, current))
}

// checkCommit returns an error if HEAD of the checkout in dir is another commit.
func checkCommit(ctx context.Context, dir, id string) error {
	out, err := git(ctx, dir, "rev-parse", "HEAD")
	if err == nil && strings.TrimSpace(out) != id {
		err = fmt.Errorf("%s is at %s, the remote at %s", dir, strings.TrimSpace(out), id)
	}
	return err
}

// realGitSync runs the program once, without its removal of earlier worktrees and of what they
// needed, which follows the update of the symlink.
func (s *scene) realGitSync(ctx context.Context, root string, depth int) error {
	if err := os.MkdirAll(root, 0o755); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, s.config.gitSync, "--repo="+s.url(), "--ref=main", "--root="+root,
		"--link=current", fmt.Sprintf("--depth=%d", depth), "--submodules=off", "--one-time", "--git-gc=off",
		"--stale-worktree-timeout=24h", "--sync-timeout=1h")
	cmd.Dir = s.disk.Dir
	// It writes a configuration for git into TMPDIR.
	cmd.Env = append(gitEnv(), "TMPDIR="+s.disk.Dir)
	if s.far != nil {
		cmd.Env = append(cmd.Env, "GIT_SSL_CAINFO="+s.far.ca)
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", s.config.gitSync, err, bytes.TrimSpace(out))
	}
	return nil
}
