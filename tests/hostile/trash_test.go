package hostile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/helmdeck/repos/tests/wait"
)

// quietTrash measures the speed of the trash on the quiet machine. Then busy loops are the attack, and
// trashBeside lets the plugin delete as many files again. All are written before, because to write them
// would cost the victim more than their deletion does.
func quietTrash(b *battle) (_ func(ctx context.Context), err error) {
	first, err := b.evicted()
	if err != nil {
		return nil, err
	}
	if b.ending, err = b.evicted(); err != nil {
		return nil, err
	}
	volume, id, err := b.fillTrash()
	if err != nil {
		return nil, err
	}
	b.dying = func(ctx context.Context) error {
		entry, err := b.discard(ctx, volume, id)
		if err != nil {
			return err
		}
		return wait.Until(b, func() error {
			if _, err := os.Lstat(entry); err != nil {
				return wait.Final(err) // all was deleted before
			}
			return partly(entry, trashFiles/filesEach, "deleted")
		})
	}
	b.trash, err = first()
	return busyLoops, err
}

// partly returns nil when some of the names in a directory are there, and others are not.
func partly(dir string, all int, done string) error {
	left, err := os.ReadDir(dir)
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return wait.Final(err)
	case len(left) == 0 || len(left) == all:
		return fmt.Errorf("%d of %d directories are there, want some of them %s", len(left), all, done)
	}
	return nil
}

// busyLoops keeps two processors busy.
func busyLoops(ctx context.Context) {
	loop(ctx, 2, func(ctx context.Context, _ int) {
		_ = exec.CommandContext(ctx, "sh", "-c", "while :; do :; done").Run() // it ends with ctx
	})
}

// trashFiles is how many files are deleted to measure the trash.
const trashFiles = 12_000

// leastTrash is the least speed of the trash beside busy loops, as a part of that without them.
const leastTrash = 1.0 / 3

// trashBeside compares the speed of the trash during the attack with that before.
func trashBeside(b *battle) (string, error) {
	busy, err := b.ending()
	if err != nil {
		return "", err
	}
	ratio := busy / b.trash
	figures := fmt.Sprintf("trash %.0f>%.0f files/s (%.2fx)", b.trash, busy, ratio)
	if ratio < leastTrash {
		err = fmt.Errorf("%w: the trash has %.2f of its quiet speed, want at least %.2f", errSlow, ratio, leastTrash)
	}
	return figures, err
}

// evicted prepares a workspace. evict ends it, and returns how many of its files the plugin deletes in a second.
func (b *battle) evicted() (evict func() (speed float64, err error), err error) {
	volume, id, err := b.fillTrash()
	return func() (float64, error) { return b.deleted(volume, id) }, err
}

// filesEach is how many files fill writes to a directory.
const filesEach = 100

// fill writes files to a new workspace of an attacker: below a path, in directories whose names begin with prefix.
func (b *battle) fill(attacker, below, prefix string, files int) (volume, id string, err error) {
	dir, id, err := b.workspace(attacker, b.server)
	if err != nil {
		return "", "", err
	}
	for n := range files {
		to := filepath.Join(dir, below, fmt.Sprint(prefix, n/filesEach))
		if n%filesEach == 0 {
			err = os.MkdirAll(to, 0o755)
		}
		if err = errors.Join(err, os.WriteFile(filepath.Join(to, fmt.Sprint(n)), make([]byte, 5000), 0o644)); err != nil {
			return "", "", err
		}
	}
	return b.volume(), id, nil
}

// fillTrash writes files into a workspace.
func (b *battle) fillTrash() (volume, id string, err error) {
	return b.fill("trash", "evicted", "", trashFiles)
}

// discard ends a workspace of fillTrash, and returns where its files are in the trash.
func (b *battle) discard(ctx context.Context, volume, id string) (entry string, err error) {
	if err := b.plugin.Unmount(ctx, volume, "container"); err != nil {
		return "", err
	}
	if err := wait.Until(b, func() error { // until it has become a checkpoint
		err := b.plugin.Admin.RemoveCheckpoint(ctx, id)
		if err != nil && ctx.Err() != nil {
			err = wait.Final(fmt.Errorf("there is no checkpoint of %s: %w", id, ctx.Err()))
		}
		return err
	}); err != nil {
		return "", err
	}
	entries, err := filepath.Glob(filepath.Join(b.plugin.DataDir(), "trash", "*", "*", "evicted"))
	if err != nil || len(entries) != 1 {
		return "", fmt.Errorf("in the trash are %q, %w", entries, err)
	}
	return entries[0], nil
}

// deleted ends a workspace of fillTrash, and returns how many of its files the plugin deletes in a second.
func (b *battle) deleted(volume, id string) (speed float64, err error) {
	ctx, cancel := context.WithTimeout(b.Context(), answerTime)
	defer cancel()
	entry, err := b.discard(ctx, volume, id)
	if err != nil {
		return 0, err
	}
	for began := time.Now(); time.Since(began) < 2*answerTime; { // to look at the files would cost as much as their removal
		if _, err := os.Lstat(filepath.Dir(entry)); errors.Is(err, fs.ErrNotExist) {
			return float64(trashFiles) / time.Since(began).Seconds(), nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return 0, fmt.Errorf("evicted files are there after %v", 2*answerTime)
}
