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
	"strconv"
	"strings"

	"github.com/helmdeck/repos/internal/failpoint"
	"github.com/helmdeck/repos/internal/git/giterror"
	"github.com/helmdeck/repos/internal/git/gitref"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/overlay"
	"github.com/helmdeck/repos/internal/repo/lfs"
	"github.com/helmdeck/repos/internal/repo/remote"
	"github.com/helmdeck/repos/internal/workspace/cache"
)

// gitLayerShape is the version of the format of git layers, which is part of their IDs.
const gitLayerShape = "git-5"

// gitLayer returns the git layer of a Snapshot, and builds it if it does not exist. It depends on the tree if that
// has submodules: the caller keeps it from being removed.
func (c *Collection) gitLayer(ctx context.Context, snap *remote.Snapshot, s Spec, tree meta.Layer) (meta.Layer, error) {
	r, snapshot := snap.Resolution, snapshotOf(snap)
	built, modules := "", "" // a tree that is built again may have other packs
	if tree.Modules != "" {
		built = tree.ID + " " + strconv.FormatInt(tree.CreatedAt.UnixNano(), 10)
		modules = filepath.Join(c.layers.Lower(meta.Tree, tree.ID)[0], ".git/modules")
	}
	id := layerID("git", gitLayerShape, s.History.Name(), snap.Store.ClonedAt.UnixNano(), snapshot,
		s.URL.String(), r.Ref, r.Commit, s.UID, s.GID, s.Files.Sparse, s.Files.NoLFS, s.CacheLink, tree.Modules, built)
	return c.layer(ctx, meta.GitLayer, id, func(ctx context.Context, dir string) (meta.Layer, error) {
		l := meta.Layer{Kind: meta.GitLayer, ID: id, Commit: r.Commit, Store: s.History.Name(), Snapshot: snapshot}
		// The tree may have been built from another store.
		if err := snap.BringBlobs(ctx, s.cone()); err != nil {
			return l, err
		}
		// The store may have lost the commit since it was fetched and the tree was built. git looks while the
		// directory is built, because that takes as long.
		there := make(chan error, 1)
		go func() {
			if snap.Checked {
				there <- nil
			} else {
				there <- c.checkCommit(ctx, s, r.Commit)
			}
		}()
		w, top := ownedWriter{uid: int(s.UID), gid: int(s.GID)}, filepath.Join(dir, gitPart, ".git")
		w.mkdirs(dir, gitPart+"/.git")
		refs, err := snap.Refs(ctx)
		if err == nil {
			err = c.buildGitDir(ctx, &w, top, s, snap, r, refs)
		}
		if err == nil {
			err = w.ownPacks(ctx, filepath.Join(dir, ownedPart), top, modules)
		}
		if err == nil { // a mount has them, and not dir, as layers
			err = errors.Join(overlay.Mark(filepath.Join(dir, gitPart)), overlay.Mark(filepath.Join(dir, ownedPart)))
		}
		if err := cmp.Or(<-there, err); err != nil {
			return l, err
		}
		failpoint.Hit("tree/gitlayer/linked")
		return l, appendFile(filepath.Join(dir, gitPart, ".git/config"), tree.Modules)
	})
}

// snapshotOf identifies the refs that a git layer has: all of the store or, if that is the
// cold one, the ref of r alone, so that fetches for other volumes do not matter.
func snapshotOf(snap *remote.Snapshot) string {
	if snap.History.Cold {
		return snap.Resolution.Pulled + " " + snap.Store.Head
	}
	return snap.Store.Snapshot
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
// of r, which has no commit if r has none, or detached at its commit, all branches of the remote are there as origin/*,
// all tags, and the store's packs as hard links. From the cold store it is like that of
// `git clone --depth 1`, with one branch or tag. A container can't change the packs: its
// writes go to the upper directory of its own overlay.
func (c *Collection) buildGitDir(ctx context.Context, w *ownedWriter, top string,
	s Spec, snap *remote.Snapshot, r meta.Resolution, refs []gitref.PackedRef,
) error {
	from, store := snap.Dir(), snap.Store
	for _, d := range []string{
		"hooks", "info", "objects", "objects/info", "objects/pack",
		"refs", "refs/heads", "refs/remotes", "refs/remotes/origin", "refs/tags",
	} {
		w.mkdir(filepath.Join(top, d))
	}
	if s.History.Cold {
		refs = withResolution([]gitref.PackedRef{{Name: r.Ref}}, r) // see snapshotOf
	} else if now, ok := remote.LookUp(refs, r.Ref, r.At); ok && now.Commit != r.Commit {
		refs = withResolution(refs, r) // the store has an older or newer answer about other refs
	}
	w.packedRefs(filepath.Join(top, "packed-refs"), cloneRefs(refs))
	w.file(filepath.Join(top, "info/exclude"), exclude(s.CacheLink))
	w.file(filepath.Join(top, "config"), gitConfig(s, store.Format, r.Ref))
	w.file(filepath.Join(top, lfs.FilterFile), lfs.Filter)
	if s.Files.Sparse != "" {
		w.file(filepath.Join(top, "config.worktree"), []byte("[core]\n\tsparseCheckout = true\n\tsparseCheckoutCone = true\n"))
	}
	w.file(filepath.Join(top, "description"), []byte("Unnamed repository; edit this file 'description' to name the repository.\n"))
	if strings.HasPrefix(r.Ref, "refs/heads/") {
		w.file(filepath.Join(top, "HEAD"), []byte("ref: "+r.Ref+"\n"))
		if r.Commit != "" {
			w.mkdirs(top, filepath.Dir(r.Ref))
			w.file(filepath.Join(top, r.Ref), []byte(r.Commit+"\n"))
		}
	} else {
		w.file(filepath.Join(top, "HEAD"), []byte(r.Commit+"\n"))
	}
	tip := commitOf(refs, store.Head)
	if short, ok := strings.CutPrefix(store.Head, "refs/heads/"); ok && tip != "" {
		w.file(filepath.Join(top, "refs/remotes/origin/HEAD"), []byte("ref: refs/remotes/origin/"+short+"\n"))
	}
	c.cloneLog(top, s.URL, r.At).reflogs(w, r, store.Head, tip)
	err := snap.Link(ctx, func() error {
		if s.History.Depth > 0 {
			// The commits where the history is cut; missing if it is shorter than that.
			if shallow, err := os.ReadFile(filepath.Join(from, "shallow")); err == nil {
				w.file(filepath.Join(top, "shallow"), shallow)
			} else if !errors.Is(err, os.ErrNotExist) {
				return err
			}
		}
		linked, err := w.linkPacks(filepath.Join(from, "objects/pack"), filepath.Join(top, "objects/pack"))
		if err == nil && linked == 0 && r.Commit != "" {
			err = giterror.Damaged(from, errors.New("its packs are gone"))
		}
		return err
	})
	return errors.Join(w.err, err)
}

// cloneRefs converts the refs of the store to those of a clone: branches below origin/,
// and tags. They stay sorted, because refs/heads, refs/remotes and refs/tags have the same
// order.
func cloneRefs(refs []gitref.PackedRef) []gitref.PackedRef {
	list := make([]gitref.PackedRef, 0, len(refs))
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
	if r.Commit == "" { // it was not there
		return slices.DeleteFunc(slices.Clone(refs), func(ref gitref.PackedRef) bool { return ref.Name == r.Ref })
	}
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

func (w *ownedWriter) packedRefs(path string, refs []gitref.PackedRef) {
	if w.err == nil {
		var f *os.File
		if f, w.err = os.Create(path); w.err == nil {
			w.err = errors.Join(gitref.WritePackedRefs(f, refs), f.Close())
		}
	}
	w.own(path)
}

// linkPacks links the complete packs of from into to: those with an index, which git
// writes last. It returns how many these are, and copies .promisor, the mark of a partial clone's pack, because only
// its owner may read the original. A .keep beside each makes git leave it as it is: git gc in a workspace would otherwise
// write all that the clone has into the workspace.
func (w *ownedWriter) linkPacks(from, to string) (linked int, err error) {
	indexes, err := filepath.Glob(filepath.Join(from, "pack-*.idx"))
	if err != nil {
		return 0, err
	}
	for _, idx := range indexes {
		name := strings.TrimSuffix(filepath.Base(idx), ".idx")
		if data, err := os.ReadFile(filepath.Join(from, name+".promisor")); err == nil {
			w.file(filepath.Join(to, name+".promisor"), data)
		} else if !os.IsNotExist(err) {
			return 0, err
		}
		w.file(filepath.Join(to, name+".keep"), nil)
		for _, ext := range []string{".pack", ".idx"} {
			err := os.Link(filepath.Join(from, name+ext), filepath.Join(to, name+ext))
			if os.IsNotExist(err) {
				err = giterror.Damaged(from, err)
			}
			if err != nil {
				return 0, err
			}
		}
	}
	return len(indexes), nil
}

// exclude returns what git ignores besides .gitignore: nothing, as after `git clone`, or the link to the cache.
func exclude(link bool) []byte {
	text := "# git ls-files --others --exclude-from=.git/info/exclude\n# Lines that start with '#' are comments.\n"
	if link {
		text += "/" + cache.Link + "\n"
	}
	return []byte(text)
}

// gitConfig returns the configuration that `git clone` writes, and the filter of git-lfs. In a partial clone two
// settings turn automatic maintenance off: git repacks what a promisor sent whether its pack is kept or not, and that is
// all that the clone has.
func gitConfig(s Spec, format, ref string) []byte {
	var b bytes.Buffer
	version, extensions := 0, ""
	if format == gitref.SHA256 {
		version, extensions = 1, "\tobjectFormat = sha256\n"
	}
	if s.History.NoBlobs {
		// git clone does not write extensions.partialClone: other implementations refuse it, and git knows the
		// promisor by its remote since 2.24.
		version = 1
	}
	if s.Files.Sparse != "" { // every git reads this one, whatever the version
		extensions += "\tworktreeConfig = true\n"
	}
	if extensions != "" {
		extensions = "[extensions]\n" + extensions
	}
	fmt.Fprintf(&b, "[core]\n\trepositoryformatversion = %d\n\tfilemode = true\n\tbare = false\n\tlogallrefupdates = true\n", version)
	b.WriteString(extensions)
	if s.History.NoBlobs {
		b.WriteString("[gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n")
	}
	b.WriteString(lfs.FilterConfig(s.Files.NoLFS))
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
