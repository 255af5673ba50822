package tree

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/helmdeck/repos/internal/failpoint"
	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/remote"
)

// gitLayerShape names what a git layer holds; it is part of its ID.
const gitLayerShape = "git-2"

// GitLayer returns the git layer for a resolution of the store's refs, and
// makes it if there is none.
func (c *Collection) GitLayer(ctx context.Context, s Spec, r meta.Resolution, store meta.Store, tree meta.Layer) (meta.Layer, error) {
	snapshot := store.Snapshot
	id := layerID("git", gitLayerShape, s.History.Name(), store.ClonedAt.UnixNano(), snapshot, s.URL.String(), r.Ref, r.Commit, s.UID, s.GID, s.Files.Sparse, tree.Modules)
	return c.layer(ctx, meta.GitLayer, id, func(ctx context.Context, dir string) (meta.Layer, error) {
		l := meta.Layer{Kind: meta.GitLayer, ID: id, Commit: r.Commit, Store: s.History.Name(), Snapshot: snapshot}
		// The tree may be of another store.
		if err := c.remote.BringBlobs(ctx, s.Source, r.Commit, s.cone()); err != nil {
			return l, err
		}
		// The tree may be older than what happened to the store.
		_, ok, err := c.remote.Git.Commit(ctx, c.remote.StoreDir(s.History.Name()), r.Commit)
		if err == nil && !ok {
			err = c.remote.NoCommit(ctx, s.Source, r.Commit)
		}
		if err != nil {
			return l, err
		}
		err = c.remote.FromStore(ctx, s.Source, func(store meta.Store, refs []git.PackedRef) error {
			if store.Snapshot != snapshot {
				return remote.ErrFetched
			}
			return c.buildGitLayer(dir, s, r, store, refs)
		})
		if err != nil {
			return l, err
		}
		failpoint.Hit("clone/gitlayer/linked")
		return l, appendFile(filepath.Join(dir, ".git/config"), tree.Modules)
	})
}

// layerID hashes what a layer is made from.
func layerID(parts ...any) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%v\x00", p)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// buildGitLayer makes what `git clone` would have left in .git, in dir.
func (c *Collection) buildGitLayer(dir string, s Spec, r meta.Resolution, store meta.Store, refs []git.PackedRef) error {
	b := layerBuilder{uid: int(s.UID), gid: int(s.GID)}
	top := filepath.Join(dir, ".git")
	b.own(dir)
	b.mkdir(top)
	return c.buildGitDir(&b, top, s, r, store, refs)
}

// buildGitDir fills top with what `git clone` would have left there: the branch of
// r checked out or its commit detached, all branches of the remote as origin/*,
// all tags, and the store's packs as hard links. A container of another uid than
// the packs' can't touch those, and writes into its own upper.
func (c *Collection) buildGitDir(b *layerBuilder, top string, s Spec, r meta.Resolution, store meta.Store, refs []git.PackedRef) error {
	from := c.remote.StoreDir(s.History.Name())
	for _, d := range []string{
		"hooks", "info", "objects", "objects/info", "objects/pack",
		"refs", "refs/heads", "refs/remotes", "refs/remotes/origin", "refs/tags",
	} {
		b.mkdir(filepath.Join(top, d))
	}
	// A Prepare that has settled for its commit may find the ref elsewhere: the clone
	// looks as it would have at that moment.
	if now, ok := remote.LookUp(refs, r.Ref, r.At); ok && now.Commit != r.Commit {
		refs = resolvedAs(refs, r)
	}
	head := store.Head
	branch, onBranch := strings.CutPrefix(r.Ref, "refs/heads/")
	b.file(filepath.Join(top, "packed-refs"), git.FormatPackedRefs(cloneRefs(refs)))
	b.file(filepath.Join(top, "info/exclude"), []byte("/"+CacheLink+"\n"))
	b.file(filepath.Join(top, "config"), gitConfig(s, store.Format, branch, onBranch))
	if s.Files.Sparse != "" {
		b.file(filepath.Join(top, "config.worktree"), []byte("[core]\n\tsparseCheckout = true\n\tsparseCheckoutCone = true\n"))
	}
	b.file(filepath.Join(top, "description"), []byte("Unnamed repository; edit this file 'description' to name the repository.\n"))
	if onBranch {
		b.file(filepath.Join(top, "HEAD"), []byte("ref: "+r.Ref+"\n"))
		b.mkdirs(top, filepath.Dir(r.Ref))
		b.file(filepath.Join(top, r.Ref), []byte(r.Commit+"\n"))
	} else {
		b.file(filepath.Join(top, "HEAD"), []byte(r.Commit+"\n"))
	}
	if short, ok := strings.CutPrefix(head, "refs/heads/"); ok && hasRef(refs, head) {
		b.file(filepath.Join(top, "refs/remotes/origin/HEAD"), []byte("ref: refs/remotes/origin/"+short+"\n"))
	}
	if s.History.Depth > 0 {
		// Where the history was cut; absent if it is shorter than that.
		if shallow, err := os.ReadFile(filepath.Join(from, "shallow")); err == nil {
			b.file(filepath.Join(top, "shallow"), shallow)
		} else if !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	b.linkPacks(filepath.Join(from, "objects/pack"), filepath.Join(top, "objects/pack"))
	return b.err
}

// cloneRefs turns the refs of the store into those that a clone of the remote
// has: branches under origin/, tags as they are, nothing else. The order stays
// sorted, for refs/heads, refs/remotes and refs/tags are in order.
func cloneRefs(refs []git.PackedRef) []git.PackedRef {
	var list []git.PackedRef
	for _, r := range refs {
		if short, ok := strings.CutPrefix(r.Name, "refs/heads/"); ok {
			r.Name = "refs/remotes/origin/" + short
			list = append(list, r)
		} else if strings.HasPrefix(r.Name, "refs/tags/") {
			list = append(list, r)
		}
	}
	return list
}

// resolvedAs returns refs with the one that r is of where it stood then.
func resolvedAs(refs []git.PackedRef, r meta.Resolution) []git.PackedRef {
	refs = slices.Clone(refs)
	for i := range refs {
		if refs[i].Name == r.Ref {
			refs[i] = git.PackedRef{Name: r.Ref, ID: r.Pulled}
			if r.Commit != r.Pulled {
				refs[i].Peeled = r.Commit
			}
		}
	}
	return refs
}

func hasRef(refs []git.PackedRef, name string) bool {
	for _, r := range refs {
		if r.Name == name {
			return true
		}
	}
	return false
}

// layerBuilder makes files and directories that belong to a uid, and remembers
// the first error.
type layerBuilder struct {
	uid, gid int
	err      error
}

func (b *layerBuilder) do(f func() error) {
	if b.err == nil {
		b.err = f()
	}
}

func (b *layerBuilder) own(path string) {
	b.do(func() error { return os.Lchown(path, b.uid, b.gid) })
}

func (b *layerBuilder) mkdir(path string) {
	b.do(func() error { return os.Mkdir(path, 0o755) })
	b.own(path)
}

// mkdirs makes the directories of rel below top that are missing.
func (b *layerBuilder) mkdirs(top, rel string) {
	path := top
	for _, part := range strings.Split(rel, "/") {
		path = filepath.Join(path, part)
		if _, err := os.Lstat(path); errors.Is(err, os.ErrNotExist) {
			b.mkdir(path)
		} else {
			b.do(func() error { return err })
		}
	}
}

func (b *layerBuilder) file(path string, data []byte) {
	b.do(func() error { return os.WriteFile(path, data, 0o644) })
	b.own(path)
}

// linkPacks links the complete packs of from into to: those that have an index,
// for git writes it last.
func (b *layerBuilder) linkPacks(from, to string) {
	b.do(func() error {
		indexes, err := filepath.Glob(filepath.Join(from, "pack-*.idx"))
		if err != nil {
			return err
		}
		for _, idx := range indexes {
			name := strings.TrimSuffix(filepath.Base(idx), ".idx")
			if err := b.markPromisor(filepath.Join(from, name), filepath.Join(to, name)); err != nil {
				return err
			}
			for _, ext := range []string{".pack", ".rev", ".idx"} {
				err := os.Link(filepath.Join(from, name+ext), filepath.Join(to, name+ext))
				if os.IsNotExist(err) && ext == ".rev" {
					continue // git before 2.41 writes none
				}
				if os.IsNotExist(err) {
					err = git.Damaged(from, err)
				}
				if err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// markPromisor copies the mark of a pack of a partial clone, if it has one: git
// lets nobody but its owner read it.
func (b *layerBuilder) markPromisor(from, to string) error {
	data, err := os.ReadFile(from + ".promisor")
	if os.IsNotExist(err) {
		return nil
	}
	b.file(to+".promisor", data)
	return err
}

// gitConfig is the configuration that `git clone` writes, and two settings of
// ours: one commit in a repository of many packs would otherwise rewrite them
// all into the workspace.
func gitConfig(s Spec, format, branch string, onBranch bool) []byte {
	var b bytes.Buffer
	var extensions string
	if format == git.SHA256 {
		extensions += "\tobjectFormat = sha256\n"
	}
	if s.History.NoBlobs {
		extensions += "\tpartialClone = origin\n"
	}
	version := 0
	if extensions != "" {
		version = 1
	}
	if s.Files.Sparse != "" {
		// Every git looks at this one, whatever the version.
		extensions += "\tworktreeConfig = true\n"
	}
	if extensions != "" {
		extensions = "[extensions]\n" + extensions
	}
	fmt.Fprintf(&b, "[core]\n\trepositoryformatversion = %d\n\tfilemode = true\n\tbare = false\n\tlogallrefupdates = true\n", version)
	b.WriteString(extensions)
	b.WriteString("[gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n")
	fmt.Fprintf(&b, "[remote \"origin\"]\n\turl = %s\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n", quoteConfig(s.URL.String()))
	if s.History.NoBlobs {
		b.WriteString("\tpromisor = true\n\tpartialclonefilter = blob:none\n")
	}
	if onBranch {
		fmt.Fprintf(&b, "[branch %s]\n\tremote = origin\n\tmerge = %s\n", quoteConfig(branch), quoteConfig("refs/heads/"+branch))
	}
	return b.Bytes()
}

// quoteConfig quotes a value or the name of a subsection (git-config, Syntax).
// Neither can hold a newline: URLs and refs are checked for it.
func quoteConfig(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}
