package git

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/helmdeck/repos/internal/git/gitref"
)

// Connected reports whether the store has all objects that are reachable from ids, as git
// fetch checks before it updates refs. It relies on the refs of the store to be complete,
// and ignores objects that a shallow or a filtered fetch omitted.
func (g *Git) Connected(ctx context.Context, store string, ids []string, noBlobs bool) (bool, error) {
	if !noBlobs {
		if _, connected := g.connectedByFewChanges(ctx, store, ids); connected {
			return true, nil
		}
	}
	return g.connectedByWalk(ctx, store, ids, noBlobs)
}

// connectedByWalk is Connected as git does it.
func (g *Git) connectedByWalk(ctx context.Context, store string, ids []string, noBlobs bool) (bool, error) {
	args := []string{"rev-list", "--objects", "--quiet", "--stdin"}
	if noBlobs {
		args = append(append(slices.Clone(promisor), args...), "--exclude-promisor-objects")
	}
	_, err := g.Run(ctx, g.InStore(store, Command{Op: "follow objects", Stdin: strings.Join(ids, "\n") + "\n"},
		append(args, "--not", "--all")...))
	if exitCode(err) > 0 {
		return false, nil
	}
	return err == nil, err
}

const (
	// maxFollowedTips, maxFollowed and followWithin bound connectedByFewChanges: there may be
	// many commits, and trees of a kilobyte can have ten billion files.
	maxFollowedTips = 256
	maxFollowed     = 20_000
	followWithin    = 500 * time.Millisecond
)

var errFollowed = errors.New("too many changes")

// connectedByFewChanges is connectedByChanges, and reports false too if that takes long.
func (g *Git) connectedByFewChanges(ctx context.Context, store string, ids []string) (known map[string]Object, connected bool) {
	ctx, cancel := context.WithTimeout(ctx, followWithin)
	defer cancel()
	return g.connectedByChanges(ctx, store, ids)
}

// connectedByChanges is Connected for few new commits, and returns ids as Known does. It
// reports false if it can't tell.
//
// rev-list first marks all files of the old commits, 100,000 for one changed file. This
// compares each new commit with its first parent, and looks up the trees and files that
// differ. All others are those of the parent, which is complete because it is an old
// commit, or was compared too.
func (g *Git) connectedByChanges(ctx context.Context, store string, ids []string) (known map[string]Object, connected bool) {
	if len(ids) > maxFollowedTips {
		return nil, false
	}
	want := make(map[string]string) // the type of each new object
	info := false                   // the last record is followed by its path
	c := g.InStore(store, Command{Op: "follow changes"}, append([]string{
		"log", "--format=%T", "--raw", "-r", "-t", "-z", "--no-renames", "--no-abbrev", "--no-mailmap", "--root", "--diff-merges=first-parent",
		"--not", "--all", "--not", "--end-of-options",
	}, ids...)...)
	err := g.EachRecord(ctx, c, 0, func(field string) error {
		if info {
			info = false
			return nil
		}
		id, kind := strings.TrimPrefix(field, "\n"), "tree" // of a commit, or a record
		if record, ok := strings.CutPrefix(id, ":"); ok {
			info = true
			// The modes, the IDs and the kind of change, from the parent to the commit.
			fields := strings.Fields(record)
			if len(fields) != 5 {
				return errFollowed
			}
			id = fields[3]
			switch fields[1] {
			case "000000", "160000": // removed, or a submodule
				return nil
			case "040000":
			default:
				kind = "blob"
			}
		}
		if !gitref.IsObjectID(id) || want[id] != "" && want[id] != kind || len(want) > maxFollowed {
			return errFollowed
		}
		want[id] = kind
		return nil
	})
	if err != nil {
		return nil, false
	}
	// git reads a commit or a tag in place of a tree, and leaves out objects that are not
	// commits.
	known, all, err := g.known(ctx, store, ids, want)
	return known, err == nil && all
}
