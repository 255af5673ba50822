package git

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Fetch is one fetch into a store.
type Fetch struct {
	Store    string
	Remote   Remote
	Refspecs []string
	// Prune deletes refs on the right side of the refspecs that the remote does not have
	// any more, before it writes new ones.
	Prune bool
	// Depth, if not 0, truncates the history that many commits below the refs; all
	// fetches into a store must use the same depth.
	Depth int
	// NoBlobs omits file contents. A remote without support for filters sends them
	// nevertheless.
	NoBlobs bool
	// Progress, if set, is called from the fetching goroutine.
	Progress func(Progress)
}

// Fetch fetches the objects and refs of f.Refspecs into the store and packs the refs. It
// does not update the refs atomically, because only then git prunes before it writes, so
// that a branch "a" can replace "a/b". After an error some refs may be updated and others
// not, which the next Fetch repairs; no lock files and temporary packs are left behind.
func (g *Git) Fetch(ctx context.Context, f Fetch) error {
	if err := g.fetch(ctx, f, ""); err != nil {
		return err
	}
	// A server of plain files (dumb HTTP) sends the loose objects that it has.
	loose, err := filepath.Glob(filepath.Join(f.Store, "objects", "[0-9a-f][0-9a-f]"))
	if len(loose) > 0 {
		err = g.Repack(ctx, f.Store)
	}
	if err != nil {
		return err
	}
	_, err = g.Run(ctx, g.inStore(f.Store, Command{Op: "pack the refs of", url: f.Remote.URL, Write: []string{f.Store}},
		"pack-refs", "--all", "--prune"))
	return err
}

// FetchObjects fetches objects by their IDs into a store that was fetched with NoBlobs,
// in one request. They need no refs, because they are in promisor packs. Refspecs, Prune
// and Depth of f are not used.
func (g *Git) FetchObjects(ctx context.Context, f Fetch, ids []string) error {
	f.Refspecs, f.Prune, f.Depth = nil, false, 0
	return g.fetch(ctx, f, strings.Join(ids, "\n")+"\n")
}

// promisor makes origin the remote of a store without file contents.
var promisor = []string{"-c", "remote.origin.promisor=true", "-c", "remote.origin.partialclonefilter=blob:none"}

// fetch runs git fetch; stdin, if set, has more refspecs, one per line.
func (g *Git) fetch(ctx context.Context, f Fetch, stdin string) error {
	args := []string{
		"--git-dir=.",
		// Keep no loose objects, because git layers hard-link packs only.
		"-c", "fetch.unpackLimit=1",
		"-c", "transfer.unpackLimit=1",
		"-c", "fetch.writeCommitGraph=false",
		"-c", "http.lowSpeedLimit=1", "-c", fmt.Sprintf("http.lowSpeedTime=%d", max(1, int(g.config.StallTimeout.Seconds()))),
	}
	if stdin != "" {
		// The objects are known to be missing, so no negotiation is needed.
		args = append(args, "-c", "fetch.negotiationAlgorithm=noop")
	}
	args = append(args, "fetch", "--force", "--no-tags", "--no-write-fetch-head",
		"--no-auto-maintenance", "--no-recurse-submodules", "--progress")
	if f.Prune {
		args = append(args, "--prune")
	}
	if f.Depth > 0 {
		args = append(args, "--depth="+strconv.Itoa(f.Depth), "--update-shallow")
	}
	if f.NoBlobs {
		args = append(args, "--filter=blob:none")
	}
	if stdin != "" {
		args = append(args, "--stdin")
	}
	c := Command{
		Op: opFetch, Dir: f.Store, Write: []string{f.Store}, Stdin: stdin, silence: g.config.StallTimeout, fetches: true,
		cleanup: func() error { return SweepStore(f.Store) }, Stderr: reporter(f.Progress),
	}
	_, err := g.runRemote(ctx, f.Remote, c, func(url string) []string {
		var config []string
		if f.NoBlobs {
			// Use a named remote, which only this command knows: a filtered fetch from a
			// URL would store the remote in the configuration, and then every command
			// would fetch missing objects.
			config = append([]string{"-c", "remote.origin.url=" + url}, promisor...)
			url = "origin"
		}
		return slices.Concat(config, args, []string{"--end-of-options", url}, f.Refspecs)
	})
	return err
}
