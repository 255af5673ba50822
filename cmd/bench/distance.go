package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// roundTrip is the round trip to the remote in the rows with distance. Each such row is measured
// without distance too.
const roundTrip = 30 * time.Millisecond

func farRow(name string) string  { return name + ", 30 ms away" }
func nearRow(name string) string { return name + ", 0 ms away" }

// tripsRow is the difference of the two, in round trips of 30 ms.
func tripsRow(name string) string { return name + ": extra round trips" }

// trafficRow counts what reaches the server in a sample of farRow.
func trafficRow(name, kind string) string { return farRow(name) + ": " + kind }

// twice is a measurement that is made at both distances.
type twice struct {
	name    string
	against []string // names of our measurements, if this is a peer's
	traffic []string // the kinds that become rows
	// before prepares a sample, and is not measured. It may be nil.
	before func(ctx context.Context, s *scene, i int) error
	sample func(ctx context.Context, s *scene, i int) (float64, error)
}

// rows returns a row for each distance, one for their difference, and those of the traffic. No two
// samples have the same number i.
func (m twice) rows() (far, near, trips row, traffic []row) {
	var tookFar, tookNear float64
	var seen map[string]int
	at := func(d time.Duration, k int, took *float64) func(ctx context.Context, s *scene, i int) (float64, error) {
		return func(ctx context.Context, s *scene, i int) (_ float64, err error) {
			s.far.link.SetRoundTrip(d)
			if m.before != nil {
				if err := m.before(ctx, s, 2*i+k); err != nil {
					return 0, err
				}
			}
			if err := s.disk.Sync(); err != nil {
				return 0, err
			}
			earlier := s.far.traffic()
			*took, err = m.sample(ctx, s, 2*i+k)
			if d > 0 {
				seen = s.far.traffic()
				for kind, n := range earlier {
					seen[kind] -= n
				}
			}
			return *took, err
		}
	}
	far = row{name: farRow(m.name), unit: ms, sample: at(roundTrip, 0, &tookFar)}
	near = row{name: nearRow(m.name), unit: ms, sample: at(0, 1, &tookNear)}
	trips = row{name: tripsRow(m.name), unit: roundTrips, sample: func(context.Context, *scene, int) (float64, error) {
		return (tookFar - tookNear) / float64(roundTrip.Milliseconds()), nil
	}}
	for _, ours := range m.against {
		far.against = append(far.against, farRow(ours))
		near.against = append(near.against, nearRow(ours))
		trips.against = append(trips.against, tripsRow(ours))
	}
	for _, kind := range m.traffic {
		traffic = append(traffic, row{name: trafficRow(m.name, kind), unit: count, sample: func(context.Context, *scene, int) (float64, error) {
			return float64(seen[kind]), nil
		}})
	}
	return far, near, trips, traffic
}

// atDistance returns the rows of all measurements: those at a distance, those without, the
// differences, and the traffic. So those that follow a push follow one at the same distance.
func atDistance(all ...twice) (rows []row) {
	var nears, differences, traffics []row
	for _, m := range all {
		far, near, trips, traffic := m.rows()
		rows, nears = append(rows, far), append(nears, near)
		differences, traffics = append(differences, trips), append(traffics, traffic...)
	}
	return append(append(append(rows, nears...), differences...), traffics...)
}

// away measures how much longer mounts and their peers take if the remote is farther away.
func away(c config) group {
	names := crowdNames(c.crowd)
	use := func(ctx context.Context, s *scene, _ int) error {
		_, err := s.use(ctx, "warm", nil)
		return err
	}
	mount := func(ctx context.Context, s *scene, _ int) (float64, error) { return s.use(ctx, "warm", nil) }
	var pushed string
	return group{
		name: "distance", rounds: c.runs, once: true, distant: true, copies: 8,
		rivals: distantRivals,
		prepare: func(ctx context.Context, s *scene) error {
			return errors.Join(warmUp(ctx, s), s.createCrowd(ctx, names))
		},
		rows: atDistance(
			twice{name: warmMount, traffic: []string{questions, infoRefs, connections}, before: use, sample: mount},
			twice{name: lsRemote, against: []string{warmMount, hungUpMount, newMount}, sample: func(ctx context.Context, s *scene, _ int) (float64, error) {
				return clock(func() error {
					_, err := git(ctx, s.disk.Dir, "-c", s.far.trust(), "ls-remote", s.url(), "refs/heads/main")
					return err
				})
			}},
			twice{name: hungUpMount, traffic: []string{connections, handshakes}, before: func(ctx context.Context, s *scene, i int) error {
				if err := use(ctx, s, i); err != nil {
					return err
				}
				s.far.link.HangUp()
				return await(ctx, "the end of the connections", func() (bool, error) { return s.far.link.Open() == 0, nil })
			}, sample: mount},
			twice{name: newMount, traffic: []string{questions}, before: use, sample: func(ctx context.Context, s *scene, i int) (float64, error) {
				return s.createAndMount(ctx, fmt.Sprintf("new-%d", i), "warm")
			}},
			twice{name: updateMount, traffic: []string{questions, connections}, before: func(ctx context.Context, s *scene, i int) (err error) {
				if err := use(ctx, s, i); err != nil {
					return err
				}
				pushed, err = s.push(ctx, "main", i)
				return err
			}, sample: func(ctx context.Context, s *scene, _ int) (float64, error) {
				return s.use(ctx, "warm", func(dir string) error { return checkCommit(ctx, dir, pushed) })
			}},
			twice{name: inPlacePush, against: []string{updateMount, refreshedMount}, sample: func(ctx context.Context, s *scene, _ int) (float64, error) {
				return clock(func() error { return updateInPlace(ctx, s.peer("in-place")) })
			}},
			twice{name: gitSyncPush, against: []string{updateMount, refreshedMount}, sample: distantGitSync},
			twice{name: refreshedMount, traffic: []string{questions}, before: func(ctx context.Context, s *scene, i int) (err error) {
				if pushed, err = s.push(ctx, "main", -1-i); err != nil {
					return err
				}
				return s.refresh(ctx, "warm", pushed)
			}, sample: func(ctx context.Context, s *scene, _ int) (float64, error) {
				return s.use(ctx, "warm", func(dir string) error { return checkCommit(ctx, dir, pushed) })
			}},
			twice{name: crowdRow(c.crowd), traffic: []string{questions, connections}, before: func(ctx context.Context, s *scene, _ int) error {
				_, err := s.use(ctx, names[0], nil)
				return errors.Join(err, s.settle(ctx))
			}, sample: func(ctx context.Context, s *scene, _ int) (float64, error) { return s.useAll(ctx, names) }},
		),
	}
}

// distantRivals is prepareRivals with a server that git trusts only in the peers' directories.
func distantRivals(ctx context.Context, s *scene) error {
	if _, err := git(ctx, s.disk.Dir, "clone", "-q", "-c", s.far.trust(), s.url(), s.peer("in-place")); err != nil {
		return err
	}
	return s.gitSync(ctx, s.peer("git-sync"), 0)
}

// distantGitSync measures git-sync's way. It deletes the worktree before, as git-sync does, because
// at both distances together they would take much space.
func distantGitSync(ctx context.Context, s *scene, _ int) (float64, error) {
	root := s.peer("git-sync")
	before, err := os.Readlink(filepath.Join(root, "current"))
	if err != nil {
		return 0, err
	}
	took, err := clock(func() error { return s.gitSync(ctx, root, 0) })
	return took, errors.Join(err, os.RemoveAll(filepath.Join(root, before)))
}

// awayInContainers measures docker run with a volume that only this container has.
func awayInContainers(c config) group {
	const often = 3
	run := func(flags ...string) func(ctx context.Context, s *scene, _ int) (float64, error) {
		return func(ctx context.Context, s *scene, _ int) (float64, error) {
			took, _, err := s.run(ctx, append([]string{"--network", "none", s.nameless("warm")}, flags...), "true")
			return took, err
		}
	}
	local := synced(func(ctx context.Context, s *scene, _ int) (float64, error) {
		took, _, err := s.run(ctx, []string{"--network", "none", "--mount", "type=volume,dst=/w"}, "true")
		return took, err
	})
	rows := atDistance(
		twice{name: dockerNameless, traffic: []string{questions, connections}, sample: run()},
		twice{name: dockerWorkdir, traffic: []string{questions, connections}, sample: run("--workdir", "/w")},
	)
	var ours []string
	for _, name := range []string{dockerNameless, dockerWorkdir} {
		ours = append(ours, farRow(name), nearRow(name))
	}
	return group{
		name: "distance", rounds: often * c.runs, once: true, distant: true, copies: 3, container: true,
		prepare: func(ctx context.Context, s *scene) error {
			_, err := run()(ctx, s, 0)
			if err == nil {
				_, err = local(ctx, s, 0)
			}
			return err
		},
		rows: append([]row{{name: dockerNamelessLocal, against: ours, unit: ms, sample: local}}, rows...),
	}
}
