package git

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/helmdeck/repos/internal/disk/durable"
	"github.com/helmdeck/repos/internal/git/gitref"
)

// Object is an object of a store.
type Object struct {
	Type   string // commit, tree, blob or tag
	Peeled string // for a tag: the object that it finally points to
}

// Known looks objects up by their full IDs. The result does not have missing objects, nor
// tags of missing objects.
func (g *Git) Known(ctx context.Context, store string, ids []string) (map[string]Object, error) {
	known, _, err := g.known(ctx, store, ids, nil)
	return known, err
}

// known is Known, and reports whether the store has all of ids, each a commit or a tag of one,
// and others, each of its type.
func (g *Git) known(ctx context.Context, store string, ids []string, others map[string]string) (known map[string]Object, all bool, err error) {
	var question strings.Builder
	for _, id := range ids {
		fmt.Fprintf(&question, "%s\n%s%s\n", id, id, gitref.PeeledSuffix)
	}
	for id := range others {
		question.WriteString(id + "\n")
	}
	out, err := g.Run(ctx, g.InStore(store, Command{Op: "look up objects", Stdin: question.String()},
		"cat-file", "--batch-check=%(objectname) %(objecttype)"))
	if err != nil {
		return nil, false, err
	}
	lines := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	if len(lines) != 2*len(ids)+len(others) {
		return nil, false, fmt.Errorf("cat-file: %d lines for %d objects", len(lines), len(ids)+len(others))
	}
	known, all = make(map[string]Object), true
	for i, id := range ids {
		_, kind, _ := strings.Cut(lines[2*i], " ")
		peeled, of, _ := strings.Cut(lines[2*i+1], " ")
		switch {
		case kind == "missing":
		case kind != "tag":
			known[id] = Object{Type: kind}
		case gitref.IsObjectID(peeled): // otherwise the tag's object is missing
			known[id] = Object{Type: kind, Peeled: peeled}
		}
		all = all && of == "commit"
	}
	for _, line := range lines[2*len(ids):] {
		id, kind, _ := strings.Cut(line, " ")
		all = all && others[id] == kind
	}
	return known, all, nil
}

// WriteRefs replaces the store's packed-refs by refs, which must be sorted by name. As
// with git, a crash leaves the old or the new file, and maybe a lock file that SweepStore
// removes; without synced, a power loss can also leave an empty one. No git may run in the
// store.
func (g *Git) WriteRefs(store string, refs []gitref.PackedRef, synced bool) error {
	path := filepath.Join(store, "packed-refs")
	lock := path + ".lock"
	if err := os.Remove(lock); err != nil && !errors.Is(err, os.ErrNotExist) { // left by a killed git
		return err
	}
	f, err := os.OpenFile(lock, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("write the refs of a store: %w", err)
	}
	err = gitref.WritePackedRefs(f, refs)
	err, rename := errors.Join(err, f.Chown(g.Owner())), durable.RenameVolatile
	if synced {
		err, rename = errors.Join(err, f.Sync()), durable.Rename
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(fmt.Errorf("write the refs of a store: %w", err), os.Remove(lock))
	}
	return rename(lock, path)
}
