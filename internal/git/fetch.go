package git

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Fetch is one fetch into a store.
type Fetch struct {
	Store    string
	Remote   Remote
	Refspecs []string
	// Prune deletes refs on the right side of the refspecs that the remote no
	// longer has, before new ones are written.
	Prune bool
	// Depth, if not 0, cuts the history that many commits below the refs; the
	// store must never have been fetched otherwise.
	Depth int
	// NoBlobs leaves the contents of files at the remote. A remote that does not
	// know how sends them all the same.
	NoBlobs bool
	// Progress, if set, is called from the fetching goroutine.
	Progress func(Progress)
}

// Fetch brings the objects and refs of f.Refspecs into the store and packs the
// refs. It is not atomic for the refs: git prunes before it writes only then, and
// a branch "a" can take the place of "a/b". After an error some refs may be new
// and others not, which the next Fetch mends; no lock file and no temporary pack
// is left behind.
func (g *Git) Fetch(ctx context.Context, f Fetch) error {
	if err := g.fetch(ctx, f, ""); err != nil {
		return err
	}
	if err := g.packLoose(ctx, f.Store); err != nil {
		return err
	}
	_, err := g.Run(ctx, Command{
		Op: "pack the refs of", url: f.Remote.URL,
		Args: []string{"--git-dir=.", "pack-refs", "--all", "--prune"},
		Dir:  f.Store, UID: g.uid, GID: g.gid, Write: []string{f.Store},
	})
	return err
}

// FetchObjects brings objects by their IDs into a store that was fetched with
// NoBlobs, in one request. No ref names them: they are in packs that git
// counts as the remote's. Refspecs, Prune and Depth of f are not used.
func (g *Git) FetchObjects(ctx context.Context, f Fetch, ids []string) error {
	f.Refspecs, f.Prune, f.Depth = nil, false, 0
	return g.fetch(ctx, f, strings.Join(ids, "\n")+"\n")
}

// fetch runs git fetch; stdin, if set, holds more refspecs, one a line.
func (g *Git) fetch(ctx context.Context, f Fetch, stdin string) error {
	args := []string{
		"--git-dir=.",
		// The git layers hard-link packs: nothing may be left loose.
		"-c", "fetch.unpackLimit=1",
		"-c", "transfer.unpackLimit=1",
		"-c", "fetch.writeCommitGraph=false",
		"-c", "http.lowSpeedLimit=1", "-c", fmt.Sprintf("http.lowSpeedTime=%d", max(1, int(g.stall.Seconds()))),
	}
	if stdin != "" {
		// The wanted are known to be missing: there is nothing to compare.
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
		Op: "fetch", Dir: f.Store, Write: []string{f.Store}, Stdin: stdin, silence: g.stall, fetches: true,
		cleanup: func() error { return SweepStore(f.Store) },
	}
	if f.Progress != nil {
		c.Stderr = func(line string) {
			if p, ok := parseProgress(line); ok {
				f.Progress(p)
			}
		}
	}
	_, err := g.runRemote(ctx, f.Remote, c, func(url string) []string {
		var config []string
		if f.NoBlobs {
			// A remote with a name, which no other command knows: a filtered fetch
			// from a URL would make the remote a part of the store's configuration,
			// and every command there would fetch what it does not find.
			config = []string{
				"-c", "remote.origin.url=" + url,
				"-c", "remote.origin.promisor=true", "-c", "remote.origin.partialclonefilter=blob:none",
			}
			url = "origin"
		}
		return slices.Concat(config, args, []string{"--end-of-options", url}, f.Refspecs)
	})
	return err
}
