package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/helmdeck/repos/internal/git/gitserver"
)

// deep is the name of the repository with a long history, and deepFiles the number of its files.
const (
	deep      = "deep"
	deepFiles = 2000
)

func deepRow(n int) string      { return coldMount + ", " + thousands(n) + " commits" }
func deepClone(n int) string    { return freshClone + ", " + thousands(n) + " commits" }
func shallowRow(n int) string   { return coldMount + " with cold=shallow, " + thousands(n) + " commits" }
func shallowClone(n int) string { return freshClone + " --depth 1, " + thousands(n) + " commits" }

// history compares the first mount of a subject with git clone, for a repository with few files
// and many commits.
func history(c config) group {
	idle := func(ctx context.Context, s *scene, _ int) error { return s.awaitIdle(ctx) }
	mount := func(name string, options ...string) twice {
		return twice{name: name, before: idle, sample: func(ctx context.Context, s *scene, i int) (float64, error) {
			id := fmt.Sprintf("deep%d-%d", len(options), i)
			return s.createAndMount(ctx, id, id, options...)
		}}
	}
	clone := func(name, ours string, options ...string) twice {
		return twice{name: name, against: []string{ours}, before: idle, sample: func(ctx context.Context, s *scene, i int) (float64, error) {
			dir := s.peer(fmt.Sprintf("clone%d-%d", len(options), i))
			return clock(func() error {
				_, err := git(ctx, s.disk.Dir, append(append([]string{"clone", "-q", "-c", s.far.trust()}, options...), s.url(), dir)...)
				return err
			})
		}}
	}
	return group{
		name: "history", rounds: c.runs, once: true, distant: true, repo: deep, copies: 4, dirt: 8 * c.runs * deepFiles,
		prepare: func(ctx context.Context, s *scene) error { return s.deepen(ctx) },
		rows: atDistance(
			mount(deepRow(c.commits)),
			clone(deepClone(c.commits), deepRow(c.commits)),
			mount(shallowRow(c.commits), "cold", "shallow"),
			clone(shallowClone(c.commits), shallowRow(c.commits), "--depth", "1"),
		),
	}
}

// deepen makes the repository with a long history, packed with a bitmap as on a large server,
// unless it exists.
func (p *place) deepen(ctx context.Context) error {
	path := p.server.Path(deep)
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if _, err := gitserver.Generate(path, gitserver.Spec{Seed: 2, Files: deepFiles, Commits: p.commits, Changes: 2, Grow: true}); err != nil {
		return err
	}
	_, err := git(ctx, p.root, "--git-dir="+path, "repack", "-adfbq", "--window=5")
	return err
}
