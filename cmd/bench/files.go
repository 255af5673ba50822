package main

import (
	"context"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sync/errgroup"
)

// writeFiles creates dir and writes new files of so many bytes below it, 100 in each directory,
// like a build or an installation of packages.
func writeFiles(ctx context.Context, dir string, files, bytes int) error {
	const perDir = 100
	content := make([]byte, bytes)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(4)
	for first := 0; first < files; first += perDir {
		g.Go(func() error {
			sub := filepath.Join(dir, strconv.Itoa(first/perDir))
			if err := os.MkdirAll(sub, 0o755); err != nil {
				return err
			}
			for i := first; i < min(first+perDir, files) && ctx.Err() == nil; i++ {
				if err := os.WriteFile(filepath.Join(sub, strconv.Itoa(i)), content, 0o644); err != nil {
					return err
				}
			}
			return context.Cause(ctx)
		})
	}
	return g.Wait()
}
