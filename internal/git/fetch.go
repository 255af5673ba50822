package git

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/disk/durable"
	"github.com/helmdeck/repos/internal/git/giterror"
	"github.com/helmdeck/repos/internal/git/gitprogress"
	"github.com/helmdeck/repos/internal/git/gitref"
	"github.com/helmdeck/repos/internal/volume"
)

// Fetch is one fetch into a store.
type Fetch struct {
	Store    string
	Remote   Remote
	Refspecs []string
	// Only makes Clone fetch Refspecs alone, as Fetch does.
	Only bool
	// New means that the caller syncs the whole store afterwards, so git does not.
	New bool
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
	Progress func(gitprogress.Progress)

	oneThread bool // as in Command
}

// Fetch fetches the objects and refs of f.Refspecs into the store and packs the refs. It
// does not update the refs atomically, because only then git prunes before it writes, so
// that a branch "a" can replace "a/b". After an error some refs may be updated and others
// not, which the next Fetch repairs; no lock files and temporary packs are left behind.
func (g *Git) Fetch(ctx context.Context, f Fetch) error {
	if err := g.fetch(ctx, f, ""); err != nil {
		return err
	}
	if err := g.packLoose(ctx, f.Store); err != nil {
		return err
	}
	_, err := g.Run(ctx, g.InStore(f.Store, Command{Op: "pack the refs of", url: f.Remote.URL, Write: []string{f.Store}},
		"pack-refs", "--all", "--prune"))
	return err
}

// Clone makes a store of that object format in f.Store, an empty directory that belongs to
// the fetching uid. Without f.Only it fetches all branches and tags, and the refs on the left
// side of f.Refspecs besides. It returns the refs of the store, which with f.New is not synced. After
// an error the directory may have contents.
//
// git clone costs less than a first git fetch: while it indexes the pack it checks that no
// object is missing, and it writes no loose refs.
func (g *Git) Clone(ctx context.Context, f Fetch, format string) ([]gitref.PackedRef, error) {
	if f.Only {
		return g.cloneOnly(ctx, f, format)
	}
	if err := g.clone(ctx, f); err != nil {
		return nil, err
	}
	refs, err := g.Refs(f.Store)
	if err != nil {
		return nil, err
	}
	if len(refs) > 0 && gitref.Format(refs[0].ID) != format {
		err := fmt.Errorf("it has objects of the format %s, and said %s before", gitref.Format(refs[0].ID), format)
		return nil, &giterror.Error{Op: opFetch, URL: f.Remote.URL, Kind: giterror.KindServer, Err: err}
	}
	if err := g.writeSettings(f.Store, format); err != nil {
		return nil, err
	}
	removeSpare(f.Store)
	return refs, g.packLoose(ctx, f.Store)
}

// cloneOnly is Clone with f.Only. git clone can take one branch alone, but neither a commit
// nor a tag with the name of a branch. It would not be faster, because with a depth it
// follows all objects as git fetch does.
func (g *Git) cloneOnly(ctx context.Context, f Fetch, format string) ([]gitref.PackedRef, error) {
	if err := g.MakeStore(f.Store, format); err != nil {
		return nil, err
	}
	if err := g.Fetch(ctx, f); err != nil {
		return nil, err
	}
	return g.Refs(f.Store)
}

// clone runs git clone.
func (g *Git) clone(ctx context.Context, f Fetch) error {
	c, args := g.receive(f)
	// A bundle would come from whatever URL the remote names.
	args = append(args, "-c", "transfer.bundleURI=false")
	for _, refspec := range f.Refspecs {
		args = append(args, "-c", "remote.origin.fetch="+refspec)
	}
	// The empty template has no hooks. --no-local never takes the URL for a directory.
	args = append(args, "clone", "--bare", "--template=", "--no-local", "--no-single-branch", "--progress")
	if f.Depth > 0 {
		args = append(args, "--depth="+strconv.Itoa(f.Depth))
	} else {
		args = append(args, "--reject-shallow") // the store would not have the whole history
	}
	if f.NoBlobs {
		args = append(args, blobless)
	}
	c.cleanup = func() error { return disk.RemoveContents(f.Store) } // git clones into an empty directory
	_, err := g.RunRemote(ctx, f.Remote, c, func(url string) []string {
		return append(slices.Clone(args), "--end-of-options", url, ".")
	})
	return err
}

// EmptyClone clones an empty remote into f.Store, an empty directory that belongs to the fetching
// uid, and returns the branch that HEAD is at, and the object format.
func (g *Git) EmptyClone(ctx context.Context, f Fetch) (head, format string, err error) {
	if err := g.clone(ctx, f); err != nil {
		return "", "", err
	}
	out, err := g.Run(ctx, g.InStore(f.Store, Command{Op: "read HEAD of an empty clone", question: true}, "symbolic-ref", "HEAD"))
	if err != nil {
		return "", "", err
	}
	head = strings.TrimSpace(string(out))
	if _, err := volume.ParseRef(head); err != nil || !strings.HasPrefix(head, "refs/heads/") {
		return "", "", &giterror.Error{Op: opFetch, URL: f.Remote.URL, Kind: giterror.KindServer, Detail: fmt.Sprintf("its HEAD points to %q", head)}
	}
	out, err = g.Run(ctx, g.InStore(f.Store, Command{Op: "read the format of an empty clone", question: true}, "rev-parse", "--show-object-format"))
	return head, strings.TrimSpace(string(out)), err
}

// MakeStore makes a store without objects and refs in dir, an empty directory that belongs
// to the fetching uid. It syncs nothing. git itself makes the directories of spare when it needs
// them.
func (g *Git) MakeStore(dir, format string) error {
	uid, gid := g.Owner()
	for _, d := range []string{"objects", "objects/pack", "refs"} {
		path := filepath.Join(dir, d)
		if err := errors.Join(os.Mkdir(path, 0o755), os.Lchown(path, uid, gid)); err != nil {
			return err
		}
	}
	return g.writeSettings(dir, format)
}

// spare are the directories of a new repository that are empty in a store, whose objects are in
// packs and whose refs are in packed-refs. Each would take an inode and a block of each clone.
var spare = []string{"objects/info", "refs/heads", "refs/tags"}

// removeSpare removes the directories of spare that are empty.
func removeSpare(store string) {
	for _, d := range spare {
		_ = os.Remove(filepath.Join(store, d))
	}
}

// writeSettings writes HEAD and the configuration of a store. They replace those of git
// clone, which name the remote.
func (g *Git) writeSettings(store, format string) error {
	config := "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = true\n"
	if format == gitref.SHA256 {
		config = strings.Replace(config, "= 0", "= 1", 1) + "[extensions]\n\tobjectformat = sha256\n"
	}
	uid, gid := g.Owner()
	return errors.Join(writeOwned(filepath.Join(store, "HEAD"), "ref: refs/heads/none\n", uid, gid),
		writeOwned(filepath.Join(store, "config"), config, uid, gid))
}

// writeShallow tells git that the store lacks the parents of commits.
func writeShallow(store string, commits []string, uid, gid int) error {
	if len(commits) == 0 {
		return nil
	}
	slices.Sort(commits)
	return writeOwned(filepath.Join(store, "shallow"), strings.Join(commits, "\n")+"\n", uid, gid)
}

// writeOwned writes a file of a store, whose owner is uid. It syncs nothing.
func writeOwned(path, data string, uid, gid int) error {
	if err := durable.WriteVolatile(path, []byte(data), 0o644); err != nil {
		return err
	}
	return os.Lchown(path, uid, gid)
}

// packLoose packs loose objects: a server of plain files (dumb HTTP) sends those that it
// has.
func (g *Git) packLoose(ctx context.Context, store string) error {
	loose, err := filepath.Glob(filepath.Join(store, "objects", "[0-9a-f][0-9a-f]"))
	if err != nil || len(loose) == 0 {
		return err
	}
	return g.Repack(ctx, store)
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

// blobless is the option of git fetch and git clone for NoBlobs.
const blobless = "--filter=blob:none"

// receive returns the command and the first arguments of a git that receives a pack into
// f.Store.
func (g *Git) receive(f Fetch) (Command, []string) {
	c := Command{
		Op: opFetch, Dir: f.Store, Write: []string{f.Store}, fetches: true,
		cleanup: func() error { return SweepStore(f.Store) }, Stderr: reporter(f.Progress),
	}
	return c, append(syncing(f.New),
		// Keep no loose objects, because git layers hard-link packs only.
		"-c", "fetch.unpackLimit=1",
		"-c", "transfer.unpackLimit=1",
		"-c", "fetch.writeCommitGraph=false",
	)
}

// syncing returns the options of a git that receives a pack into a store, which is new or not.
func syncing(isNew bool) []string {
	if isNew {
		return []string{"-c", "core.fsync=none"}
	}
	return nil
}

// fetch runs git fetch; stdin, if set, has more refspecs, one per line.
func (g *Git) fetch(ctx context.Context, f Fetch, stdin string) error {
	c, args := g.receive(f)
	c.Stdin = stdin
	args = append(args, "--git-dir=.")
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
		args = append(args, blobless)
	}
	if stdin != "" {
		args = append(args, "--stdin")
	}
	_, err := g.RunRemote(ctx, f.Remote, c, func(url string) []string {
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
