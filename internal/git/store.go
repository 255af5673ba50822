package git

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// The formats of a repository's object IDs.
const (
	SHA1   = "sha1"
	SHA256 = "sha256"
)

// InitStore makes a bare repository in dir, which must be an empty directory
// that belongs to the fetching uid.
func (g *Git) InitStore(ctx context.Context, dir, format string) error {
	_, err := g.run(ctx, command{
		op:   "make a store",
		args: []string{"init", "--quiet", "--bare", "--template=", "--initial-branch=none", "--object-format=" + format, "."},
		dir:  dir, uid: g.uid, gid: g.gid, write: []string{dir},
	})
	return err
}

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
	args := []string{
		"--git-dir=.",
		// The git layers hard-link packs: nothing may be left loose.
		"-c", "fetch.unpackLimit=1",
		"-c", "transfer.unpackLimit=1",
		"-c", "fetch.writeCommitGraph=false",
		"-c", "http.lowSpeedLimit=1", "-c", "http.lowSpeedTime=300",
		"fetch", "--force", "--no-tags", "--no-write-fetch-head",
		"--no-auto-maintenance", "--no-recurse-submodules", "--progress",
	}
	if f.Prune {
		args = append(args, "--prune")
	}
	if f.Depth > 0 {
		args = append(args, "--depth="+strconv.Itoa(f.Depth), "--update-shallow")
	}
	if f.NoBlobs {
		args = append(args, "--filter=blob:none")
	}
	c := command{
		op: "fetch", dir: f.Store, write: []string{f.Store},
		cleanup: func() error { return SweepStore(f.Store) },
	}
	if f.Progress != nil {
		c.stderr = func(line string) {
			if p, ok := parseProgress(line); ok {
				f.Progress(p)
			}
		}
	}
	_, err := g.runRemote(ctx, f.Remote, c, func(url string) []string {
		return slices.Concat(args, []string{"--end-of-options", url}, f.Refspecs)
	})
	if err != nil {
		return err
	}
	_, err = g.run(ctx, command{
		op: "pack the refs of", url: f.Remote.URL,
		args: []string{"--git-dir=.", "pack-refs", "--all", "--prune"},
		dir:  f.Store, uid: g.uid, gid: g.gid, write: []string{f.Store},
	})
	return err
}

// SweepStore removes what a killed git leaves in a store: lock files and
// temporary packs. No git may be at work in the store.
func SweepStore(store string) error {
	return filepath.WalkDir(store, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		switch {
		case d.IsDir():
			return nil
		case strings.HasSuffix(name, ".lock"), strings.HasPrefix(name, "tmp_"):
			return os.Remove(path)
		}
		return nil
	})
}

// Refs returns the content of the store's packed-refs, which after Fetch is all
// of its refs, fully peeled and sorted.
func Refs(store string) ([]PackedRef, error) {
	data, err := os.ReadFile(filepath.Join(store, "packed-refs"))
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var refs []PackedRef
	err = scan(data, func(line string) error {
		if strings.HasPrefix(line, "#") {
			return nil
		}
		if peeled, ok := strings.CutPrefix(line, "^"); ok && len(refs) > 0 {
			refs[len(refs)-1].Peeled = peeled
			return nil
		}
		id, name, ok := strings.Cut(line, " ")
		if !ok || !isObjectID(id) {
			return fmt.Errorf("%s: unexpected line %q", filepath.Join(store, "packed-refs"), line)
		}
		refs = append(refs, PackedRef{Name: name, ID: id})
		return nil
	})
	return refs, err
}

// PackedRef is one ref of a store.
type PackedRef struct {
	Name, ID string
	Peeled   string // of an annotated tag: the object behind it, through all tags
}

// FormatPackedRefs returns refs, sorted by name, as a packed-refs file.
func FormatPackedRefs(refs []PackedRef) []byte {
	var b bytes.Buffer
	b.WriteString("# pack-refs with: peeled fully-peeled sorted \n")
	for _, r := range refs {
		fmt.Fprintf(&b, "%s %s\n", r.ID, r.Name)
		if r.Peeled != "" {
			fmt.Fprintf(&b, "^%s\n", r.Peeled)
		}
	}
	return b.Bytes()
}

// Check returns what git finds wrong with a store, reading all of its objects.
func (g *Git) Check(ctx context.Context, store string) error {
	_, err := g.run(ctx, command{
		op:   "check the store",
		args: []string{"--git-dir=.", "fsck", "--full", "--no-dangling", "--no-reflogs", "--no-progress"},
		dir:  store, uid: g.uid, gid: g.gid, write: []string{store},
	})
	return err
}

// Repack joins small packs, so that their sizes form a geometric series: the cost
// is that of the new objects, not of the repository. No object is dropped.
func (g *Git) Repack(ctx context.Context, store string) error {
	_, err := g.run(ctx, command{
		op:   "repack the store",
		args: []string{"--git-dir=.", "repack", "--quiet", "--geometric=2", "-d", "--no-write-bitmap-index"},
		dir:  store, uid: g.uid, gid: g.gid, write: []string{store},
	})
	return err
}

// Keep makes ref name a commit of the store, so that it stays reachable.
func (g *Git) Keep(ctx context.Context, store, ref, commit string) error {
	_, err := g.run(ctx, command{
		op:   "keep " + commit,
		args: []string{"--git-dir=.", "update-ref", ref, commit},
		dir:  store, uid: g.uid, gid: g.gid, write: []string{store},
	})
	return err
}

// Commit returns the full ID of the commit that rev (a full or abbreviated ID)
// names in the store; ok is false when the store does not have it, when it is
// ambiguous, or when it is no commit.
func (g *Git) Commit(ctx context.Context, store, rev string) (id string, ok bool, err error) {
	out, err := g.run(ctx, command{
		op:   "look up " + rev,
		args: []string{"--git-dir=.", "rev-parse", "--verify", "--quiet", "--end-of-options", rev + "^{commit}"},
		dir:  store, uid: g.uid, gid: g.gid, read: []string{store},
	})
	if exitCode(err) == 1 {
		return "", false, nil
	}
	if err != nil {
		return "", false, err
	}
	return strings.TrimSpace(string(out)), true, nil
}
