package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// modulesDir is a directory that web projects have in the work tree, but not in git.
const modulesDir = "node_modules"

// modulesCopy is the name of the row of copying them.
const modulesCopy = "cp -a --reflink=auto of that node_modules"

func modulesRow(n int) string { return fmt.Sprintf("warm Mount with a node_modules of %d files", n) }

// modules compares a mount that finds an earlier workspace's dependencies with copying
// them into a clone.
func modules(c config) group {
	complete := func(dir string) (bool, error) {
		entries, err := os.ReadDir(filepath.Join(dir, modulesDir))
		if os.IsNotExist(err) {
			return false, nil
		}
		return len(entries) == (c.modules+99)/100, err
	}
	return group{
		name: "modules", rounds: c.runs, copies: 2, dirt: (c.runs + 4) * (c.modules + c.modules/50),
		rivals: func(ctx context.Context, s *scene) error {
			return writeFiles(ctx, s.peer(modulesDir), c.modules, dirtBytes)
		},
		prepare: func(ctx context.Context, s *scene) error {
			if err := s.create(ctx, "modules", "modules", "warm", modulesDir); err != nil {
				return err
			}
			if _, err := s.use(ctx, "modules", func(dir string) error {
				return writeFiles(ctx, filepath.Join(dir, modulesDir), c.modules, dirtBytes)
			}); err != nil {
				return err
			}
			return await(ctx, "the promotion of "+modulesDir, func() (ok bool, err error) {
				_, err = s.use(ctx, "modules", func(dir string) (err error) {
					ok, err = complete(dir)
					return err
				})
				return ok, err
			})
		},
		rows: []row{
			{name: modulesRow(c.modules), unit: ms, sample: synced(func(ctx context.Context, s *scene, _ int) (float64, error) {
				return s.use(ctx, "modules", func(dir string) error {
					if ok, err := complete(dir); err != nil || !ok {
						return fmt.Errorf("%s in %s lacks files of the earlier workspace: %w", modulesDir, dir, err)
					}
					return nil
				})
			})},
			{name: modulesCopy, against: []string{modulesRow(c.modules)}, unit: ms, sample: func(ctx context.Context, s *scene, i int) (float64, error) {
				return copyTree(ctx, s, modulesDir, fmt.Sprintf("modules-%d", i))
			}},
		},
	}
}
