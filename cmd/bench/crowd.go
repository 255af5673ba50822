package main

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/helmdeck/repos/internal/git/gitserver"
)

// crowdRow and pushedRow are the names of the rows of atOnce with times, and loneUpdate that of one
// Mount after the same push. The other rows count the requests to the server meanwhile.
func crowdRow(n int) string  { return fmt.Sprintf("%d Mounts at once", n) }
func pushedRow(n int) string { return fmt.Sprintf("%d Mounts at once, 100 files changed", n) }

const loneUpdate = "Mount, 100 files changed, in turns with Mounts at once"

func crowdAsks(n int) string     { return crowdRow(n) + ": ls-refs at the server" }
func pushedAsks(n int) string    { return pushedRow(n) + ": ls-refs at the server" }
func pushedFetches(n int) string { return pushedRow(n) + ": fetches at the server" }

// atOnce measures many concurrent mounts until the last reply, each of another volume of one
// subject: with nothing new, and after a push. What these cost at least is what the former and one
// Mount after a push cost together.
func atOnce(c config) group {
	names := crowdNames(c.crowd)
	var got asked // in the latest sample
	mount := func(ctx context.Context, s *scene, names ...string) (float64, error) {
		if err := errors.Join(s.settle(ctx), s.disk.Sync()); err != nil {
			return 0, err
		}
		s.server.Reset()
		took, err := s.useAll(ctx, names)
		got = tally(s.server.Requests())
		return took, err
	}
	pushed := func(name string, round func(i int) int, names ...string) row {
		return row{name: name, unit: ms, sample: func(ctx context.Context, s *scene, i int) (float64, error) {
			if _, err := s.push(ctx, "main", round(i)); err != nil {
				return 0, err
			}
			return mount(ctx, s, names...)
		}}
	}
	counted := func(name string, which func() int) row {
		return row{name: name, unit: count, sample: func(context.Context, *scene, int) (float64, error) {
			return float64(which()), nil
		}}
	}
	return group{
		name: "crowd", rounds: c.runs, copies: 3,
		prepare: func(ctx context.Context, s *scene) error {
			return errors.Join(s.createCrowd(ctx, names), useSmall(ctx, s))
		},
		rows: []row{
			{name: loneMount, unit: ms, sample: func(ctx context.Context, s *scene, _ int) (float64, error) { return mount(ctx, s, smallRepo) }},
			{name: crowdRow(c.crowd), unit: ms, sample: func(ctx context.Context, s *scene, _ int) (float64, error) { return mount(ctx, s, names...) }},
			counted(crowdAsks(c.crowd), func() int { return got.asks }),
			pushed(loneUpdate, func(i int) int { return 2 * i }, crowdNames(1)...),
			pushed(pushedRow(c.crowd), func(i int) int { return 2*i + 1 }, names...),
			counted(pushedAsks(c.crowd), func() int { return got.asks }),
			counted(pushedFetches(c.crowd), func() int { return got.fetches }),
		},
	}
}

// crowdNames returns the names of the volumes that are mounted concurrently.
func crowdNames(n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprintf("crowd-%d", i))
	}
	return names
}

// createCrowd makes volumes of one subject, and uses one of them, so that their clone exists.
func (s *scene) createCrowd(ctx context.Context, names []string) error {
	for _, name := range names[1:] {
		if err := s.create(ctx, name, "crowd"); err != nil {
			return err
		}
	}
	return s.createUsed(ctx, names[0], "crowd")
}

// useAll mounts volumes concurrently, and unmounts them. It returns the time until the last reply
// to a mount.
func (s *scene) useAll(ctx context.Context, names []string) (float64, error) {
	var leases []lease
	took, err := clock(func() (err error) {
		leases, err = s.mountAll(ctx, names)
		return err
	})
	return took, errors.Join(err, s.unmountAll(ctx, leases))
}

// mountAll mounts volumes concurrently, and returns the leases after the last reply.
func (s *scene) mountAll(ctx context.Context, names []string) ([]lease, error) {
	leases := make([]lease, len(names))
	g, ctx := errgroup.WithContext(ctx)
	for i, name := range names {
		g.Go(func() (err error) {
			leases[i], _, err = s.mount(ctx, name)
			return err
		})
	}
	return leases, g.Wait()
}

// unmountAll ends leases.
func (s *scene) unmountAll(ctx context.Context, leases []lease) error {
	var errs []error
	for _, l := range leases {
		if l.dir != "" {
			_, err := s.unmount(ctx, l)
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// asked counts the requests to a server.
type asked struct{ asks, fetches int }

// tally counts requests in their order. Successive fetch requests count as one fetch, because
// the negotiation takes several.
func tally(requests []gitserver.Request) (a asked) {
	fetching := false
	for _, r := range requests {
		switch r.Kind {
		case gitserver.LsRefs:
			a.asks++
		case gitserver.Fetch:
			if !fetching {
				a.fetches++
			}
		}
		fetching = r.Kind == gitserver.Fetch
	}
	return a
}
