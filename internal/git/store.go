package git

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/helmdeck/repos/internal/git/giterror"
	"github.com/helmdeck/repos/internal/git/gitref"
)

// SweepStore removes the lock files and temporary packs that a killed git leaves in a store.
// No git may run in the store.
func SweepStore(store string) error {
	return filepath.WalkDir(store, func(path string, d os.DirEntry, err error) error {
		if errors.Is(err, os.ErrNotExist) {
			return nil // the store itself, or a file that a command just removed
		}
		if err == nil && !d.IsDir() && (strings.HasSuffix(d.Name(), ".lock") || strings.HasPrefix(d.Name(), "tmp_")) {
			return os.Remove(path)
		}
		return err
	})
}

// maxRefBytes bounds the size of a store's refs, and is enough for three quarters of a million. The
// plugin needs some three times as much memory while it makes a git layer. The largest
// public repositories have some ten thousand branches and tags.
const maxRefBytes = 64 << 20

// Refs returns the store's packed-refs, which after Fetch has all refs, fully peeled and
// sorted. If it has more than 64 MiB, times the SizeFactor, the error is of giterror.KindLimit.
func (g *Git) Refs(store string) ([]gitref.PackedRef, error) {
	f, err := os.Open(filepath.Join(store, "packed-refs"))
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	most := g.config.SizeFactor.Of(maxRefBytes)
	var data strings.Builder // whose parts are the names
	if info, err := f.Stat(); err == nil {
		data.Grow(int(min(info.Size(), int64(most))) + 1)
	}
	_, err = io.CopyN(&data, f, int64(most)+1)
	switch {
	case err != nil && err != io.EOF:
		return nil, err
	case data.Len() > most:
		return nil, &giterror.Error{
			Op: "read the refs of the store", Kind: giterror.KindLimit, Detail: fmt.Sprintf("the branches and tags take more than %.4g MiB %s", float64(most)/(1<<20), SizeSetting),
			Remedy: largeRefs,
		}
	}
	refs, err := gitref.ParsePackedRefs(data.String())
	if err != nil {
		return nil, giterror.Damaged(store, err)
	}
	return refs, nil
}

// Check verifies all of a store. The error is of giterror.KindCorrupt if the store is damaged;
// any other error means that the check did not finish.
func (g *Git) Check(ctx context.Context, store string) error {
	if _, err := os.Lstat(store); errors.Is(err, os.ErrNotExist) {
		return giterror.Damaged(store, err)
	}
	_, err := g.Run(ctx, g.InStore(store, Command{Op: "check the store", Heavy: true, Write: []string{store}},
		"fsck", "--full", "--no-dangling", "--no-reflogs", "--no-progress"))
	var e *giterror.Error
	if errors.As(err, &e) && exitCode(err) > 0 && e.Kind != giterror.KindNoSpace && e.Kind != giterror.KindLimit {
		e.Kind = giterror.KindCorrupt // whatever its message
	}
	return err
}

// Has reports whether the store has an object, of any type.
func (g *Git) Has(ctx context.Context, store, id string) (bool, error) {
	_, err := g.Run(ctx, g.InStore(store, Command{Op: "look up " + id, question: true}, "cat-file", "-e", id))
	if exitCode(err) > 0 && giterror.KindOf(err) != giterror.KindLimit {
		return false, nil
	}
	return err == nil, err
}

// Repack joins small packs, so that pack sizes form a geometric series: its cost is
// proportional to the new objects, not to the repository. No object is dropped.
func (g *Git) Repack(ctx context.Context, store string) error {
	_, err := g.Run(ctx, g.InStore(store, Command{Op: "repack the store", Heavy: true, Write: []string{store}},
		"repack", "--quiet", "--geometric=2", "-d", "--no-write-bitmap-index"))
	return err
}

// Keep points ref to a commit of the store, so that it stays reachable.
func (g *Git) Keep(ctx context.Context, store, ref, commit string) error {
	_, err := g.Run(ctx, g.InStore(store, Command{Op: "keep " + commit, question: true, Write: []string{store}},
		"update-ref", ref, commit))
	return err
}

// Commit returns the full ID of the commit rev, a full or abbreviated ID; ok is false if
// the store does not have it, or if it is ambiguous or not a commit.
func (g *Git) Commit(ctx context.Context, store, rev string) (id string, ok bool, err error) {
	return g.lookUp(ctx, store, rev, "^{commit}")
}

// HasTree reports whether the store has a commit and its tree; false if it is not a commit.
func (g *Git) HasTree(ctx context.Context, store, commit string) (bool, error) {
	_, ok, err := g.lookUp(ctx, store, commit, "^{commit}^{tree}")
	return ok, err
}

// lookUp returns the ID of the object rev with the suffix to.
func (g *Git) lookUp(ctx context.Context, store, rev, to string) (id string, ok bool, err error) {
	out, err := g.Run(ctx, g.InStore(store, Command{Op: "look up " + rev, question: true},
		"rev-parse", "--verify", "--quiet", "--end-of-options", rev+to))
	if exitCode(err) == 1 {
		return "", false, nil
	}
	if err != nil {
		return "", false, err
	}
	return strings.TrimSpace(string(out)), true, nil
}

// Ahead returns how many commits are in the history of commit but not in that of of; all if of is
// empty.
func (g *Git) Ahead(ctx context.Context, store, commit, of string) (int, error) {
	args := []string{"rev-list", "--count", "--end-of-options", commit}
	if of != "" {
		args = append(args, "^"+of)
	}
	out, err := g.Run(ctx, g.InStore(store, Command{Op: "count the commits from " + of + " to " + commit, Heavy: true}, args...))
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(out)))
}
