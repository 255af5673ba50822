package tree

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/helmdeck/repos/internal/checkout"
	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/guard"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/remote"
	"github.com/helmdeck/repos/internal/volume"
)

const (
	// maxSubmodules and maxSubmoduleDepth bound what one commit can make us
	// clone. The largest honest repositories have some two hundred, four deep; one
	// whose submodule is itself has no end.
	maxSubmodules     = 500
	maxSubmoduleDepth = 10
	// submoduleFetches is how many are fetched at the same time.
	submoduleFetches = 4
)

// submoduleBase is what the submodules of a tree depend on beyond its commit: the
// URL that relative ones are relative to.
func (s Spec) submoduleBase() string {
	if s.Files.Submodules == volume.SubmodulesNone {
		return ""
	}
	return s.URL.String()
}

// rule is where what the repository names may lead to.
func (c *Collection) rule(s Spec) guard.Rule {
	return guard.Rule{Own: place(s.URL), Lookup: c.shared.LookupHost}
}

func place(u volume.URL) guard.Place { return guard.Place{Host: u.Host(), Port: u.Port()} }

// buildSubmodules checks the submodules of a tree out, and returns what they add
// to the configuration of the repository. Each comes from the store that the same
// holder has of its URL, and is left as `git submodule update --init` leaves it:
// files below the path with a .git that names its directory in .git/modules, where
// it has refs, packs and index of its own.
func (c *Collection) buildSubmodules(ctx context.Context, s Spec, co checkout.Spec, like layers, found checkout.Found) (config string, err error) {
	if s.Files.Submodules == volume.SubmodulesNone {
		return "", nil
	}
	b := submoduleBuilder{of: c, spec: s, rule: c.rule(s), top: co.Dir, like: like}
	defer b.release()
	return b.build(ctx, parent{found: found, url: s.URL, gitDir: ".git"})
}

// submoduleBuilder builds the submodules of one tree.
type submoduleBuilder struct {
	of   *Collection // of the volume
	spec Spec        // of the volume
	rule guard.Rule
	top  string // the tree
	like layers // of another tree, which has the times of files that are the same
	seen atomic.Int32

	mu       sync.Mutex
	releases []func() // of the collections of submodules
}

func (b *submoduleBuilder) release() {
	for _, f := range b.releases {
		f()
	}
}

// parent is a repository in the tree whose submodules are wanted.
type parent struct {
	found        checkout.Found
	url          volume.URL
	path, gitDir string // below the top of the tree
	depth        int
}

func (b *submoduleBuilder) build(ctx context.Context, p parent) (config string, err error) {
	list, err := planSubmodules(p.found.Gitlinks, p.found.Submodules, p.url, b.of.shared.Schemes)
	if err != nil || len(list) == 0 {
		return "", err
	}
	if p.depth == maxSubmoduleDepth {
		return "", list[0].fail(fmt.Errorf("submodules are nested more than %d deep", maxSubmoduleDepth))
	}
	if b.seen.Add(int32(len(list))) > maxSubmodules {
		return "", fmt.Errorf("the repository has more than %d submodules: use submodules=true or false, and update those that are needed in the container", maxSubmodules)
	}
	subs := make([]fetchedSubmodule, len(list))
	var g errgroup.Group
	g.SetLimit(submoduleFetches)
	for i, sub := range list {
		g.Go(func() (err error) {
			if subs[i], err = b.fetch(ctx, sub); err != nil {
				err = sub.fail(err)
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return "", err
	}
	var text strings.Builder
	for _, sub := range subs {
		if err := b.checkOut(ctx, p, sub); err != nil {
			return "", sub.fail(err)
		}
		fmt.Fprintf(&text, "[submodule %s]\n\tactive = true\n\turl = %s\n", quoteConfig(sub.name), quoteConfig(sub.url.String()))
	}
	return text.String(), nil
}

// fetchedSubmodule is a submodule whose commit is in a store.
type fetchedSubmodule struct {
	submodule
	from *Collection
	spec Spec
}

// fetch brings the commit of a submodule into the store of its URL.
func (b *submoduleBuilder) fetch(ctx context.Context, sub submodule) (f fetchedSubmodule, err error) {
	pin, err := b.rule.Check(ctx, place(sub.url))
	if err != nil {
		return f, err
	}
	ref, err := volume.ParseRef(sub.commit)
	if err != nil {
		return f, err
	}
	_, end := b.of.remote.Doing.Begin(ctx, "fetching submodule "+sub.path, sub.url.String())
	defer end()
	c, release, err := b.of.submodule(ctx, sub.url) // until its packs are linked
	if err != nil {
		return f, err
	}
	b.mu.Lock()
	b.releases = append(b.releases, release)
	b.mu.Unlock()
	f = fetchedSubmodule{submodule: sub, from: c, spec: Spec{
		Source: remote.Source{URL: sub.url, Ref: ref, Pin: pin}, Files: volume.Files{NoLFS: b.spec.Files.NoLFS}, UID: b.spec.UID, GID: b.spec.GID,
	}}
	_, _, err = c.remote.Resolve(ctx, f.spec.Source, nil)
	if git.KindOf(err) == git.KindCorrupt {
		healed, healErr := c.remote.HealStore(ctx, f.spec.Source)
		if err = errors.Join(err, healErr); healed {
			_, _, err = c.remote.Resolve(ctx, f.spec.Source, nil)
		}
	}
	return f, err
}

// checkOut puts a submodule, and with submodules=recursive those in it, into the
// tree.
func (b *submoduleBuilder) checkOut(ctx context.Context, p parent, sub fetchedSubmodule) error {
	path, gitDir := filepath.Join(p.path, sub.path), filepath.Join(p.gitDir, "modules", sub.name)
	if err := realDir(b.top, path); err != nil {
		return err
	}
	owner := layerBuilder{uid: int(b.spec.UID), gid: int(b.spec.GID)}
	if owner.mkdirs(b.top, gitDir); owner.err != nil {
		return owner.err
	}
	co := checkout.Spec{
		Store: sub.from.remote.StoreDir(sub.spec.History.Name()), Commit: sub.commit,
		Dir: filepath.Join(b.top, path), GitDir: filepath.Join(b.top, gitDir), UID: b.spec.UID, GID: b.spec.GID,
		NoLFS: b.spec.Files.NoLFS, Submodules: b.spec.Files.Submodules == volume.SubmodulesRecursive,
	}
	co.Like = b.like.reference(path, gitDir)
	found, err := checkout.Make(ctx, b.of.remote.Git, co)
	if err != nil {
		return err
	}
	sub.from.warnUnencoded(sub.commit, found)
	err = sub.from.remote.FromStore(ctx, sub.spec.Source, func(store meta.Store, refs []git.PackedRef) error {
		return sub.from.buildModule(&owner, b.top, path, gitDir, sub, store, refs)
	})
	if err != nil {
		return err
	}
	if err := sub.from.lfs.fill(ctx, sub.spec, b.rule, co, found); err != nil {
		return err
	}
	if b.spec.Files.Submodules != volume.SubmodulesRecursive {
		return nil
	}
	config, err := b.build(ctx, parent{found: found, url: sub.url, path: path, gitDir: gitDir, depth: p.depth + 1})
	if err != nil {
		return err
	}
	return appendFile(filepath.Join(b.top, gitDir, "config"), config)
}

// buildModule fills the directory of a submodule in .git/modules, and makes the .git
// in its place that names it. Both are given below top.
func (c *Collection) buildModule(b *layerBuilder, top, path, gitDir string, sub fetchedSubmodule, store meta.Store, refs []git.PackedRef) error {
	dir := filepath.Join(top, gitDir)
	if err := c.buildGitDir(b, dir, sub.spec, meta.Resolution{Commit: sub.commit}, store, refs); err != nil {
		return err
	}
	link, err := gitFile(path, gitDir)
	if err != nil {
		return err
	}
	toPath, err := filepath.Rel(gitDir, path)
	if err != nil {
		return err
	}
	b.file(filepath.Join(top, path, ".git"), []byte(link))
	config := "[core]\n\tworktree = " + quoteConfig(toPath) + "\n"
	// git makes the remote's branch before it detaches HEAD.
	for _, r := range refs {
		if short, ok := strings.CutPrefix(r.Name, "refs/heads/"); ok && r.Name == store.Head {
			b.mkdirs(dir, filepath.Dir(r.Name))
			b.file(filepath.Join(dir, r.Name), []byte(r.ID+"\n"))
			config += fmt.Sprintf("[branch %s]\n\tremote = origin\n\tmerge = %s\n", quoteConfig(short), quoteConfig(r.Name))
		}
	}
	if b.err != nil {
		return b.err
	}
	return appendFile(filepath.Join(dir, "config"), config)
}

// realDir makes sure that path below top is an empty directory that no symlink
// leads to.
func realDir(top, path string) error {
	dir := top
	for part := range strings.SplitSeq(path, "/") {
		dir = filepath.Join(dir, part)
		info, err := os.Lstat(dir)
		if err != nil {
			return err
		}
		if !info.IsDir() {
			return fmt.Errorf("%q is no directory, but %s: a submodule can't be put there", part, info.Mode().Type())
		}
	}
	left, err := os.ReadDir(dir)
	if err == nil && len(left) > 0 {
		err = errors.New("there are files in its place")
	}
	return err
}

// appendFile adds text to a file that is there.
func appendFile(path, text string) error {
	if text == "" {
		return nil
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}
