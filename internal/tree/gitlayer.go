package tree

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/helmdeck/repos/internal/failpoint"
	"github.com/helmdeck/repos/internal/giterror"
	"github.com/helmdeck/repos/internal/gitref"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/remote"
	"github.com/helmdeck/repos/internal/volume"
)

// gitLayerShape is the version of the format of git layers, which is part of their IDs.
const gitLayerShape = "git-2"

// GitLayer returns the git layer of a resolution for the store's current refs, and builds
// it if it does not exist. If the store was fetched since, the error is
// remote.ErrFetched, except for the cold store. modules is what the tree's submodules add
// to its configuration.
func (c *Collection) GitLayer(ctx context.Context, s Spec, r meta.Resolution, store meta.Store, modules string) (meta.Layer, error) {
	snapshot := snapshotOf(s, r, store)
	id := layerID("git", gitLayerShape, s.History.Name(), store.ClonedAt.UnixNano(), snapshot, s.URL.String(), r.Ref, r.Commit, s.UID, s.GID, s.Files.Sparse, modules)
	return c.layer(ctx, meta.GitLayer, id, func(ctx context.Context, dir string) (meta.Layer, error) {
		l := meta.Layer{Kind: meta.GitLayer, ID: id, Commit: r.Commit, Store: s.History.Name(), Snapshot: snapshot}
		// The tree may have been built from another store.
		if err := c.remote.BringBlobs(ctx, s.Source, r.Commit, s.cone()); err != nil {
			return l, err
		}
		// The store may have lost the commit since the tree was built. git looks while the directory is built,
		// because that takes as long.
		there := make(chan error, 1)
		go func() { there <- c.checkCommit(ctx, s, r.Commit) }()
		err := c.remote.FromStore(ctx, s.Source, func(store meta.Store, refs []gitref.PackedRef) error {
			if snapshotOf(s, r, store) != snapshot {
				return remote.ErrFetched
			}
			w, top := ownedWriter{uid: int(s.UID), gid: int(s.GID)}, filepath.Join(dir, ".git")
			w.own(dir)
			w.mkdir(top)
			return c.buildGitDir(&w, top, s, r, store, refs)
		})
		if err := cmp.Or(<-there, err); err != nil {
			return l, err
		}
		failpoint.Hit("clone/gitlayer/linked")
		return l, appendFile(filepath.Join(dir, ".git/config"), modules)
	})
}

// BeginGitLayer begins to build what GitLayer returns before the tree exists, because both wait for
// processes. It does nothing if the git layer depends on the tree's submodules. Call wait before
// GitLayer, which returns the error of a failed build, because it builds again.
func (c *Collection) BeginGitLayer(ctx context.Context, s Spec, r meta.Resolution, store meta.Store) (wait func()) {
	var g sync.WaitGroup
	if s.Files.Submodules == volume.SubmodulesNone {
		g.Go(func() { _, _ = c.GitLayer(ctx, s, r, store, "") })
	}
	return g.Wait
}

// snapshotOf identifies the refs that a git layer has: all of the store or, if that is the
// cold one, the ref of r alone, so that fetches for other volumes do not matter.
func snapshotOf(s Spec, r meta.Resolution, store meta.Store) string {
	if s.History.Cold {
		return r.Pulled + " " + store.Head
	}
	return store.Snapshot
}

// layerID returns a hash of everything that a layer depends on.
func layerID(parts ...any) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%v\x00", p)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// buildGitDir fills the directory top like the .git of `git clone`: HEAD is at the branch
// of r or detached at its commit, all branches of the remote are there as origin/*, all
// tags, and the store's packs as hard links. From the cold store it is like that of
// `git clone --depth 1`, with one branch or tag. A container can't change the packs: its
// writes go to the upper directory of its own overlay.
func (c *Collection) buildGitDir(w *ownedWriter, top string, s Spec, r meta.Resolution, store meta.Store, refs []gitref.PackedRef) error {
	from := c.remote.StoreDir(s.History.Name())
	for _, d := range []string{
		"hooks", "info", "objects", "objects/info", "objects/pack",
		"refs", "refs/heads", "refs/remotes", "refs/remotes/origin", "refs/tags",
	} {
		w.mkdir(filepath.Join(top, d))
	}
	// If the ref has moved since r (see HoldCommit), build what git clone would have
	// built then.
	if s.History.Cold {
		refs = withResolution([]gitref.PackedRef{{Name: r.Ref}}, r) // see snapshotOf
	} else if now, ok := remote.LookUp(refs, r.Ref, r.At); ok && now.Commit != r.Commit {
		refs = withResolution(refs, r)
	}
	w.file(filepath.Join(top, "packed-refs"), gitref.FormatPackedRefs(cloneRefs(refs)))
	w.file(filepath.Join(top, "info/exclude"), []byte("/"+CacheLink+"\n"))
	w.file(filepath.Join(top, "config"), gitConfig(s, store.Format, r.Ref))
	if s.Files.Sparse != "" {
		w.file(filepath.Join(top, "config.worktree"), []byte("[core]\n\tsparseCheckout = true\n\tsparseCheckoutCone = true\n"))
	}
	w.file(filepath.Join(top, "description"), []byte("Unnamed repository; edit this file 'description' to name the repository.\n"))
	if strings.HasPrefix(r.Ref, "refs/heads/") {
		w.file(filepath.Join(top, "HEAD"), []byte("ref: "+r.Ref+"\n"))
		w.mkdirs(top, filepath.Dir(r.Ref))
		w.file(filepath.Join(top, r.Ref), []byte(r.Commit+"\n"))
	} else {
		w.file(filepath.Join(top, "HEAD"), []byte(r.Commit+"\n"))
	}
	isHead := func(ref gitref.PackedRef) bool { return ref.Name == store.Head }
	if short, ok := strings.CutPrefix(store.Head, "refs/heads/"); ok && slices.ContainsFunc(refs, isHead) {
		w.file(filepath.Join(top, "refs/remotes/origin/HEAD"), []byte("ref: refs/remotes/origin/"+short+"\n"))
	}
	if s.History.Depth > 0 {
		// The commits where the history is cut; missing if it is shorter than that.
		if shallow, err := os.ReadFile(filepath.Join(from, "shallow")); err == nil {
			w.file(filepath.Join(top, "shallow"), shallow)
		} else if !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	err := w.linkPacks(filepath.Join(from, "objects/pack"), filepath.Join(top, "objects/pack"))
	return errors.Join(w.err, err)
}

// cloneRefs converts the refs of the store to those of a clone: branches below origin/,
// and tags. They stay sorted, because refs/heads, refs/remotes and refs/tags have the same
// order.
func cloneRefs(refs []gitref.PackedRef) []gitref.PackedRef {
	var list []gitref.PackedRef
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

// withResolution returns a copy of refs, in which the ref of r is where it was then.
func withResolution(refs []gitref.PackedRef, r meta.Resolution) []gitref.PackedRef {
	refs = slices.Clone(refs)
	for i := range refs {
		if refs[i].Name == r.Ref {
			refs[i] = gitref.PackedRef{Name: r.Ref, ID: r.Pulled}
			if r.Commit != r.Pulled {
				refs[i].Peeled = r.Commit
			}
		}
	}
	return refs
}

// ownedWriter makes files and directories that belong to a uid and gid. After the first
// error, which it keeps, it does nothing.
type ownedWriter struct {
	uid, gid int
	err      error
}

func (w *ownedWriter) own(path string) {
	if w.err == nil {
		w.err = os.Lchown(path, w.uid, w.gid)
	}
}

func (w *ownedWriter) mkdir(path string) {
	if w.err == nil {
		w.err = os.Mkdir(path, 0o755)
	}
	w.own(path)
}

// mkdirs makes the missing directories of the relative path rel below top.
func (w *ownedWriter) mkdirs(top, rel string) {
	for part := range strings.SplitSeq(rel, "/") {
		top = filepath.Join(top, part)
		if _, err := os.Lstat(top); err != nil {
			w.mkdir(top)
		}
	}
}

func (w *ownedWriter) file(path string, data []byte) {
	if w.err == nil {
		w.err = os.WriteFile(path, data, 0o644)
	}
	w.own(path)
}

// linkPacks links the complete packs of from into to: those with an index, which git
// writes last. It copies .promisor, the mark of a partial clone's pack, because only its
// owner may read the original.
func (w *ownedWriter) linkPacks(from, to string) error {
	indexes, err := filepath.Glob(filepath.Join(from, "pack-*.idx"))
	if err != nil {
		return err
	}
	for _, idx := range indexes {
		name := strings.TrimSuffix(filepath.Base(idx), ".idx")
		if data, err := os.ReadFile(filepath.Join(from, name+".promisor")); err == nil {
			w.file(filepath.Join(to, name+".promisor"), data)
		} else if !os.IsNotExist(err) {
			return err
		}
		for _, ext := range []string{".pack", ".idx"} {
			err := os.Link(filepath.Join(from, name+ext), filepath.Join(to, name+ext))
			if os.IsNotExist(err) {
				err = giterror.Damaged(from, err)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// gitConfig returns the configuration that `git clone` writes, and two settings of ours
// that turn automatic maintenance off: a single commit in a repository of many packs would
// otherwise rewrite all of them into the workspace.
func gitConfig(s Spec, format, ref string) []byte {
	var b bytes.Buffer
	version, extensions := 0, ""
	if format == gitref.SHA256 {
		version, extensions = 1, "\tobjectFormat = sha256\n"
	}
	if s.History.NoBlobs {
		version, extensions = 1, extensions+"\tpartialClone = origin\n"
	}
	if s.Files.Sparse != "" { // every git reads this one, whatever the version
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
	if branch, ok := strings.CutPrefix(ref, "refs/heads/"); ok {
		b.WriteString(branchConfig(branch))
	}
	return b.Bytes()
}

// branchConfig returns the section of a branch that tracks the remote's branch of that
// name.
func branchConfig(name string) string {
	return fmt.Sprintf("[branch %s]\n\tremote = origin\n\tmerge = %s\n", quoteConfig(name), quoteConfig("refs/heads/"+name))
}

// quoteConfig quotes a value or the name of a subsection (git-config, Syntax).
// Neither has a newline, because URLs and refs are checked for that.
func quoteConfig(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}
