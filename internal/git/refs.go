package git

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/helmdeck/repos/internal/durable"
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
		fmt.Fprintf(&question, "%s\n%s%s\n", id, id, peeledSuffix)
	}
	out, err := g.Run(ctx, Command{
		Op:    "look up objects",
		Args:  []string{"--git-dir=.", "cat-file", "--batch-check=%(objectname) %(objecttype)"},
		Stdin: question.String(),
		Dir:   store, UID: g.uid, GID: g.gid, Read: []string{store},
	})
	if err != nil {
		return nil, err
	}
	known := make(map[string]Object)
	line := 0
	err = scan(out, func(answer string) error {
		asked := line / 2
		peeled := line%2 == 1
		line++
		if asked >= len(ids) {
			return fmt.Errorf("cat-file: unexpected line %q", answer)
		}
		id, kind, _ := strings.Cut(answer, " ")
		o, ok := known[ids[asked]]
		switch {
		case !peeled && id == ids[asked] && kind != "missing":
			known[id] = Object{Type: kind}
		case !peeled || !ok || o.Type != "tag":
		case !IsObjectID(id):
			delete(known, ids[asked]) // the tag's object is missing
		default:
			known[ids[asked]] = Object{Type: "tag", Peeled: id}
		}
		return nil
	})
	return known, err
}

// Connected reports whether the store has all objects that are reachable from ids, as git
// fetch checks before it updates refs. It ignores what a shallow or a filtered fetch
// omitted.
func (g *Git) Connected(ctx context.Context, store string, ids []string, noBlobs bool) (bool, error) {
	args := []string{"--git-dir=."}
	if noBlobs {
		args = append(args, "-c", "remote.origin.promisor=true", "-c", "remote.origin.partialclonefilter=blob:none")
	}
	args = append(args, "rev-list", "--objects", "--quiet", "--stdin")
	if noBlobs {
		args = append(args, "--exclude-promisor-objects")
	}
	_, err := g.Run(ctx, Command{
		Op:    "follow objects",
		Args:  append(args, "--not", "--all"),
		Stdin: strings.Join(ids, "\n") + "\n",
		Dir:   store, UID: g.uid, GID: g.gid, Read: []string{store},
	})
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
	err = errors.Join(err, f.Chown(int(g.uid), int(g.gid)), f.Sync(), f.Close())
	if err != nil {
		return errors.Join(fmt.Errorf("write the refs of a store: %w", err), os.Remove(lock))
	}
	return durable.Rename(lock, path)
}
