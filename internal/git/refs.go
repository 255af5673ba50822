package git

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/helmdeck/repos/internal/durable"
	"github.com/helmdeck/repos/internal/gitref"
)

// Object is an object of a store.
type Object struct {
	Type   string // commit, tree, blob or tag
	Peeled string // for a tag: the object that it finally points to
}

// Known looks objects up by their full IDs. The result does not have missing objects, nor
// tags of missing objects.
func (g *Git) Known(ctx context.Context, store string, ids []string) (map[string]Object, error) {
	var question strings.Builder
	for _, id := range ids {
		fmt.Fprintf(&question, "%s\n%s%s\n", id, id, gitref.PeeledSuffix)
	}
	out, err := g.Run(ctx, g.inStore(store, Command{Op: "look up objects", Stdin: question.String()},
		"cat-file", "--batch-check=%(objectname) %(objecttype)"))
	if err != nil {
		return nil, err
	}
	lines := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	if len(lines) != 2*len(ids) {
		return nil, fmt.Errorf("cat-file: %d lines for %d objects", len(lines), len(ids))
	}
	known := make(map[string]Object)
	for i, id := range ids {
		_, kind, _ := strings.Cut(lines[2*i], " ")
		peeled, _, _ := strings.Cut(lines[2*i+1], " ")
		switch {
		case kind == "missing":
		case kind != "tag":
			known[id] = Object{Type: kind}
		case gitref.IsObjectID(peeled): // otherwise the tag's object is missing
			known[id] = Object{Type: kind, Peeled: peeled}
		}
	}
	return known, nil
}

// Connected reports whether the store has all objects that are reachable from ids, as git
// fetch checks before it updates refs. It ignores objects that a shallow or a filtered
// fetch omitted.
func (g *Git) Connected(ctx context.Context, store string, ids []string, noBlobs bool) (bool, error) {
	args := []string{"rev-list", "--objects", "--quiet", "--stdin"}
	if noBlobs {
		args = append(append(slices.Clone(promisor), args...), "--exclude-promisor-objects")
	}
	_, err := g.Run(ctx, g.inStore(store, Command{Op: "follow objects", Stdin: strings.Join(ids, "\n") + "\n"},
		append(args, "--not", "--all")...))
	if exitCode(err) > 0 {
		return false, nil
	}
	return err == nil, err
}

// WriteRefs replaces the store's packed-refs by refs, which must be sorted by name. As
// with git, a crash leaves the old or the new file, and maybe a lock file that SweepStore
// removes. No git may run in the store.
func (g *Git) WriteRefs(store string, refs []PackedRef) error {
	path := filepath.Join(store, "packed-refs")
	lock := path + ".lock"
	if err := os.Remove(lock); err != nil && !errors.Is(err, os.ErrNotExist) { // left by a killed git
		return err
	}
	f, err := os.OpenFile(lock, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("write the refs of a store: %w", err)
	}
	_, err = f.Write(FormatPackedRefs(refs))
	err = errors.Join(err, f.Chown(g.Owner()), f.Sync(), f.Close())
	if err != nil {
		return errors.Join(fmt.Errorf("write the refs of a store: %w", err), os.Remove(lock))
	}
	return durable.Rename(lock, path)
}
