package hostile

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/tests/wait"
)

// fullCaches prepares four workspaces of a subject with 10,000 new files in each of their caches.
func fullCaches(b *battle) (func(ctx context.Context), error) {
	return b.fillCaches(slices.Repeat([]string{"caches"}, 4), 10_000)
}

// manyCaches prepares a workspace of each of eight subjects with 4,000 new files in its cache.
func manyCaches(b *battle) (func(ctx context.Context), error) {
	var subjects []string
	for n := range 8 {
		subjects = append(subjects, fmt.Sprint("caches-", n))
	}
	return b.fillCaches(subjects, 4_000)
}

// fillCaches writes files to the caches of workspaces of these subjects, and of one more workspace, before the victim is
// measured. The attack is their end, in publishBeside.
func (b *battle) fillCaches(subjects []string, files int) (func(ctx context.Context), error) {
	var volumes []string
	for n, subject := range append(subjects, subjects[0]) {
		volume, _, err := b.fill(subject, cachedContent, fmt.Sprint(n, "-"), files) // each has names of its own
		if err != nil {
			return nil, err
		}
		volumes = append(volumes, volume)
	}
	last := len(volumes) - 1
	b.ending = func() (float64, error) { return b.published(volumes[:last], files) }
	b.dying = func(ctx context.Context) error { return b.publishing(ctx, volumes[last], files) }
	return func(ctx context.Context) { <-ctx.Done() }, nil
}

// cachedContent is where the files of a cache are.
const cachedContent = ".git/hdcache/npm/_cacache/content-v2"

// publishing ends a workspace, and returns when a part of its files is in a layer that is being made.
func (b *battle) publishing(ctx context.Context, volume string, files int) error {
	if err := b.plugin.Unmount(ctx, volume, "container"); err != nil {
		return err
	}
	return wait.Until(b, func() error {
		made, err := filepath.Glob(filepath.Join(b.plugin.DataDir(), "clones/*/*/warm/.tmp-*/files", cachedContent))
		if err == nil && len(made) == 1 {
			return partly(made[0], files/filesEach, "published")
		}
		left, listErr := b.plugin.Admin.Workspaces(ctx, api.Filter{Volume: volume})
		err = fmt.Errorf("layers are made in %q, and the workspaces are %v, %w", made, left, errors.Join(err, listErr))
		if len(left) == 0 {
			err = wait.Final(err)
		}
		return err
	})
}

// published ends workspaces, and returns how many of their files the plugin publishes in a second. Each has that many.
func (b *battle) published(volumes []string, files int) (speed float64, err error) {
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
	return float64(len(volumes)*files) / time.Since(begun).Seconds(), err
}

// publishBeside lets the plugin publish during the attack.
func publishBeside(b *battle) (string, error) {
	speed, err := b.ending()
	return fmt.Sprintf("%.0f published files/s", speed), err
}
