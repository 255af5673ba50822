package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/cmd/bench/loopdisk"
)

const (
	copiedBytes   = 10_000 // the size of each file that is copied
	copiedChanges = 100    // the files that change between two passes
	forksAtOnce   = 100
)

func firstPass(n int, fs loopdisk.Type) string {
	return fmt.Sprintf("checkpoint of %d files of 10 KB on %s: first pass", n, fs)
}

func secondPass(n int, fs loopdisk.Type) string {
	return fmt.Sprintf("checkpoint of %d files of 10 KB on %s: second pass, %d changed since", n, fs, copiedChanges)
}

func onePass(n int, fs loopdisk.Type) string { return fmt.Sprintf("cp -a of %d files on %s", n, fs) }

const (
	forkMount  = "Mount with from=CHECKPOINT"
	forkBeside = "warm Mount that asks no remote, in turns with Mounts of a checkpoint"
)

func forksRow(n int) string  { return fmt.Sprintf("%d Mounts of one checkpoint at once", n) }
func forksBase(n int) string { return fmt.Sprintf("%d warm Mounts that ask no remote at once", n) }
func forksSpace(n int) string {
	return fmt.Sprintf("disk of %d workspaces that begin with a checkpoint", n)
}

// checkpoint measures the two passes of a copy of a workspace, of which the second one is the pause of a container,
// without the engine's part of it.
func checkpoint(c config, n int, fs loopdisk.Type) group {
	var at lease
	var id string
	var second float64
	write := func(ctx context.Context, files int) error {
		return writeFiles(ctx, filepath.Join(at.dir, "out"), files, copiedBytes)
	}
	return group{
		name: "checkpoint", rounds: c.runs, once: true, copies: 1, dirt: 5 * n, filesystem: fs,
		prepare: func(ctx context.Context, s *scene) (err error) {
			if err = s.create(ctx, "work", "work", "mode", "keep"); err != nil {
				return err
			}
			if at, _, err = s.mount(ctx, "work"); err != nil {
				return err
			}
			id, err = s.workspace(ctx, "work")
			return errors.Join(err, write(ctx, n))
		},
		rows: []row{
			{name: firstPass(n, fs), unit: ms, sample: synced(func(ctx context.Context, s *scene, _ int) (took float64, err error) {
				var d api.Draft
				if took, err = clock(func() (err error) {
					d, err = s.plugin.Admin.Draft(ctx, id, api.Note{})
					return err
				}); err != nil {
					return 0, err
				}
				if err := write(ctx, min(n, copiedChanges)); err != nil {
					return 0, err
				}
				if second, err = clock(func() error {
					_, err := s.plugin.Admin.CatchUp(ctx, d.ID)
					return err
				}); err != nil {
					return 0, err
				}
				made, err := s.plugin.Admin.Keep(ctx, d.ID)
				return took, errors.Join(err, s.plugin.Admin.RemoveCheckpoint(ctx, made.ID))
			})},
			{name: secondPass(n, fs), unit: ms, sample: func(context.Context, *scene, int) (float64, error) { return second, nil }},
			{name: onePass(n, fs), against: []string{secondPass(n, fs)}, unit: ms, sample: synced(func(ctx context.Context, s *scene, i int) (float64, error) {
				took, err := clock(func() error {
					_, err := loopdisk.Tool(ctx, "cp", "-a", "--reflink=auto", filepath.Join(at.dir, "out"), s.peer("copy"))
					return err
				})
				return took, errors.Join(err, os.RemoveAll(s.peer("copy")))
			})},
		},
	}
}

// forks measures Mounts of volumes that begin with one checkpoint of 1,000 files.
func forks(c config) group {
	var forked, plain []string
	const volume = "work"
	mount := func(name, volume string, against ...string) row {
		return row{name: name, against: against, unit: ms, sample: synced(func(ctx context.Context, s *scene, _ int) (float64, error) { return s.use(ctx, volume, nil) })}
	}
	var space float64
	atOnce := func(ctx context.Context, s *scene, names []string) (float64, error) {
		before, err := s.disk.Used()
		if err != nil {
			return 0, err
		}
		var leases []lease
		took, err := clock(func() (err error) {
			leases, err = s.mountAll(ctx, names)
			return err
		})
		after, usedErr := s.disk.Used()
		space = loopdisk.MiB(after - before)
		return took, errors.Join(err, usedErr, s.unmountAll(ctx, leases))
	}
	return group{
		name: "forks", rounds: c.runs, copies: 2, dirt: 3000,
		prepare: func(ctx context.Context, s *scene) error {
			if err := s.create(ctx, volume, "work"); err != nil {
				return err
			}
			l, _, err := s.mount(ctx, volume)
			if err == nil {
				err = writeFiles(ctx, filepath.Join(l.dir, "out"), 1000, copiedBytes)
			}
			if err != nil {
				return err
			}
			id, err := s.workspace(ctx, volume)
			if err != nil {
				return err
			}
			of, err := s.plugin.Checkpoint(ctx, id, api.Note{Name: "base"})
			for i := 0; i < forksAtOnce && err == nil; i++ {
				forked, plain = append(forked, "fork-"+strconv.Itoa(i)), append(plain, "plain-"+strconv.Itoa(i))
				err = errors.Join(s.create(ctx, forked[i], "work", "from", of.ID, "ref", ""), s.create(ctx, plain[i], "work", "refresh", "1h"))
			}
			return err
		},
		rows: []row{
			mount(forkMount, "fork-0"), mount(forkBeside, "plain-0", forkMount),
			{name: forksRow(forksAtOnce), unit: ms, sample: func(ctx context.Context, s *scene, _ int) (float64, error) { return atOnce(ctx, s, forked) }},
			{name: forksSpace(forksAtOnce), unit: mib, sample: func(context.Context, *scene, int) (float64, error) { return space, nil }},
			{name: forksBase(forksAtOnce), against: []string{forksRow(forksAtOnce)}, unit: ms, sample: func(ctx context.Context, s *scene, _ int) (float64, error) { return atOnce(ctx, s, plain) }},
		},
	}
}

// workspace returns the ID of a volume's only workspace.
func (s *scene) workspace(ctx context.Context, volume string) (string, error) {
	list, err := s.plugin.Admin.Workspaces(ctx, api.Filter{Volume: volume})
	if err == nil && len(list) != 1 {
		err = fmt.Errorf("volume %q has %d workspaces, want one", volume, len(list))
	}
	if err != nil {
		return "", err
	}
	return list[0].ID, nil
}
