package hostile

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/tests/wait"
)

// caches is how many workspaces of a subject end with new files in their caches.
const caches = 4

// cachedFiles is how many new files each cache has.
const cachedFiles = 10_000

// fullCaches writes files to the caches of workspaces, before the victim is measured. The attack is their end, in publishBeside.
func fullCaches(b *battle) (func(ctx context.Context), error) {
	var volumes []string
	for n := range caches + 1 {
		volume, _, err := b.fill("caches", cachedContent, fmt.Sprint(n, "-"), cachedFiles) // each has names of its own
		if err != nil {
			return nil, err
		}
		volumes = append(volumes, volume)
	}
	b.ending = func() (float64, error) { return b.published(volumes[:caches]) }
	b.dying = func(ctx context.Context) error { return b.publishing(ctx, volumes[caches]) }
	return func(ctx context.Context) { <-ctx.Done() }, nil
}

// cachedContent is where the files of a cache are.
const cachedContent = ".git/hdcache/npm/_cacache/content-v2"

// publishing ends a workspace, and returns when a part of its files is in a layer that is being made.
func (b *battle) publishing(ctx context.Context, volume string) error {
	if err := b.plugin.Unmount(ctx, volume, "container"); err != nil {
		return err
	}
	return wait.Until(b, func() error {
		made, err := filepath.Glob(filepath.Join(b.plugin.DataDir(), "clones/*/*/warm/.tmp-*/files", cachedContent))
		if err == nil && len(made) == 1 {
			return partly(made[0], cachedFiles/filesEach, "published")
		}
		left, listErr := b.plugin.Admin.Workspaces(ctx, api.Filter{Volume: volume})
		err = fmt.Errorf("layers are made in %q, and the workspaces are %v, %w", made, left, errors.Join(err, listErr))
		if len(left) == 0 {
			err = wait.Final(err)
		}
		return err
	})
}

// published ends workspaces, and returns how many of their files the plugin publishes in a second.
func (b *battle) published(volumes []string) (speed float64, err error) {
	ctx, cancel := context.WithTimeout(b.Context(), answerTime)
	defer cancel()
	begun := time.Now()
	for _, volume := range volumes {
		if err := b.plugin.Unmount(ctx, volume, "container"); err != nil {
			return 0, err
		}
	}
	tick := time.NewTicker(20 * time.Millisecond) // a workspace is there until it has published
	defer tick.Stop()
	for _, volume := range volumes {
		for {
			left, err := b.plugin.Admin.Workspaces(ctx, api.Filter{Volume: volume})
			if err != nil {
				return 0, err
			}
			if len(left) == 0 {
				break
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return 0, fmt.Errorf("%s has not published: %w", volume, ctx.Err())
			}
		}
	}
	found, err := b.plugin.Admin.Caches(ctx, api.Filter{})
	layers := 0
	for _, c := range found {
		layers += c.Layers
	}
	if err == nil && layers == 0 {
		err = errors.New("nothing was published")
	}
	return float64(len(volumes)*cachedFiles) / time.Since(begun).Seconds(), err
}

// publishBeside lets the plugin publish during the attack.
func publishBeside(b *battle) (string, error) {
	speed, err := b.ending()
	return fmt.Sprintf("%.0f published files/s", speed), err
}
