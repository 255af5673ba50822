package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	// pushedRepo is the name of the copy of a real repository whose branch moves.
	pushedRepo = "pushed"
	// pushedCommits is by how many commits a push moves it, counted along first parents.
	pushedCommits = 20
)

// Names of rows of real repositories.
const (
	coldShallow  = coldMount + " with cold=shallow"
	shallowFresh = freshClone + " --depth 1"
)

// copyReal makes the repositories repo and pushedRepo from the real one, whose files it links if
// it is on the same filesystem. Both have the remote's default branch as main. repo has all refs
// and, as on a large server, a bitmap; pushedRepo has an earlier main, the refs that this main has
// merged, and the objects of repo.
func (p *place) copyReal(ctx context.Context) error {
	whole := filepath.Join(p.root, repo+".git")
	for _, args := range [][]string{
		{"-c", "safe.directory=*", "clone", "-q", "--mirror", "--local", filepath.Join(p.repos, p.repo+".git"), whole},
		{"--git-dir=" + whole, "update-ref", "refs/heads/main", "HEAD"},
		{"--git-dir=" + whole, "symbolic-ref", "HEAD", "refs/heads/main"},
		{"--git-dir=" + whole, "multi-pack-index", "write", "--bitmap"},
	} {
		if _, err := git(ctx, p.root, args...); err != nil {
			return err
		}
	}
	files, err := git(ctx, whole, "ls-tree", "-r", "-z", "--name-only", "main")
	if err != nil {
		return err
	}
	p.files = len(nulSeparated(files))
	packs, err := filepath.Glob(filepath.Join(whole, "objects/pack/*"))
	if err != nil {
		return err
	}
	for _, pack := range packs {
		info, err := os.Stat(pack)
		if err != nil {
			return err
		}
		p.bytes += info.Size()
	}
	return p.rewind(ctx, whole)
}

// rewind makes pushedRepo, with as many pushes ahead as there are runs.
func (p *place) rewind(ctx context.Context, whole string) error {
	out, err := git(ctx, whole, "rev-list", "--first-parent", "main")
	if err != nil {
		return err
	}
	all := strings.Fields(out) // the newest first
	if len(all) <= p.runs*pushedCommits {
		return fmt.Errorf("main has %d commits, and %d pushes need more than %d", len(all), p.runs, p.runs*pushedCommits)
	}
	for i := range p.runs {
		p.ahead = append(p.ahead, all[(p.runs-1-i)*pushedCommits])
	}
	base := all[p.runs*pushedCommits]
	merged, err := git(ctx, whole, "for-each-ref", "--merged="+base, "--format=%(objectname) %(refname)", "refs/heads", "refs/tags")
	if err != nil {
		return err
	}
	path := filepath.Join(p.root, pushedRepo+".git")
	if _, err := git(ctx, p.root, "-c", "init.defaultBranch=main", "init", "-q", "--bare", path); err != nil {
		return err
	}
	for name, content := range map[string]string{
		"objects/info/alternates": filepath.Join(whole, "objects") + "\n",
		"packed-refs":             merged,
	} {
		if err := os.WriteFile(filepath.Join(path, name), []byte(content), 0o644); err != nil {
			return err
		}
	}
	_, err = git(ctx, path, "update-ref", "refs/heads/main", base)
	return err
}

// pushReal moves the branch main of pushedRepo to a later commit, and returns that. Each round can
// be pushed only once.
func pushReal(ctx context.Context, s *scene, round int) (string, error) {
	_, err := git(ctx, s.server.Path(pushedRepo), "update-ref", "refs/heads/main", s.ahead[round])
	return s.ahead[round], err
}

// realGroups returns the groups for real repositories.
func realGroups(c config) []group {
	// Nothing is measured on the place's small repository, which a real place does not have.
	unchanged := warm(c)
	unchanged.prepare = warmUp
	unchanged.rows = slices.DeleteFunc(unchanged.rows, func(w row) bool { return w.name == smallMount })
	pushed := updates(c, fmt.Sprintf("%d new commits", pushedCommits), pushReal)
	pushed.repo = pushedRepo
	return []group{coldReal(c), unchanged, pushed}
}

// coldReal is cold for a real repository: without copies of local clones, and with shallow ones.
func coldReal(c config) group {
	measured := func(name, against string, do func(ctx context.Context, s *scene) (float64, error)) row {
		w := row{name: name, unit: ms, sample: synced(func(ctx context.Context, s *scene, _ int) (float64, error) { return do(ctx, s) })}
		if against != "" {
			w.against = []string{against}
		}
		return w
	}
	mount := func(name, volume string, options ...string) row {
		return measured(name, "", func(ctx context.Context, s *scene) (float64, error) {
			return s.createAndMount(ctx, volume, volume, options...)
		})
	}
	clone := func(name, dir, against string, args ...string) row {
		return measured(name, against, func(ctx context.Context, s *scene) (float64, error) {
			return clock(func() error {
				_, err := git(ctx, s.disk.Dir, append(append([]string{"clone", "-q"}, args...), s.url(), s.peer(dir))...)
				return err
			})
		})
	}
	sync := func(name, dir, against string, depth int) row {
		return measured(name, against, func(ctx context.Context, s *scene) (float64, error) {
			return clock(func() error { return s.gitSync(ctx, s.peer(dir), depth) })
		})
	}
	return group{
		name: "cold", rounds: c.runs, fresh: true, copies: 6,
		rows: []row{
			mount(coldMount, "whole"),
			clone(freshClone, "clone", coldMount),
			sync(gitSyncFirst, "git-sync", coldMount, 0),
			mount(coldShallow, "shallow", "cold", "shallow"),
			clone(shallowFresh, "clone-shallow", coldShallow, "--depth", "1"),
			sync(gitSyncFirst+", depth 1", "git-sync-shallow", coldShallow, 1),
		},
	}
}
