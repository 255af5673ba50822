package tree

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/helmdeck/repos/internal/checkout"
	"github.com/helmdeck/repos/internal/giterror"
	"github.com/helmdeck/repos/internal/gitref"
	"github.com/helmdeck/repos/internal/guard"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/remote"
	"github.com/helmdeck/repos/internal/volume"
)

const (
	// maxSubmodules and maxSubmoduleDepth bound how much one commit can make the plugin
	// fetch. The largest honest repositories have about two hundred submodules, four
	// levels deep; a repository that is its own submodule has infinitely many.
	maxSubmodules     = 500
	maxSubmoduleDepth = 10
	// submoduleFetches is the number of concurrent fetches for one tree.
	submoduleFetches = 4
)

// submodule is a submodule to check out. Its name, path and URL come from the repository,
// and were checked.
type submodule struct {
	name, path, commit string
	url                volume.URL
	// fetch sets these: the Collection of the URL, and what to check out from there.
	from *Collection
	spec Spec
}

// wrap adds the submodule to an error.
func (s submodule) wrap(err error) error {
	return fmt.Errorf("submodule %q (%s): %w", s.path, s.url, err)
}

// planSubmodules matches the submodules of a commit's tree with the sections of its
// .gitmodules. A name, path or URL that could be an attack is an error. A submodule
// without a section, or with update = none, stays an empty directory, as after git clone
// --recurse-submodules (which stops at the first one inside a submodule). Relative URLs
// are relative to base.
func planSubmodules(links []checkout.Gitlink, sections []checkout.Submodule, base volume.URL, schemes volume.Schemes) ([]submodule, error) {
	byPath := make(map[string]checkout.Submodule)
	for _, s := range sections {
		byPath[string(s.Path)] = s // like git, use the last section for a path
	}
	var list []submodule
	for _, link := range links {
		section, ok := byPath[string(link.Path)]
		if !ok || section.Update == "none" {
			continue
		}
		sub := submodule{name: string(section.Name), path: string(link.Path), commit: link.Commit}
		if problem := checkSubmodulePath(sub.path); problem != "" {
			return nil, fmt.Errorf("submodule %q: its path %s", sub.path, problem)
		}
		if problem := checkSubmodulePath(sub.name); problem != "" {
			return nil, fmt.Errorf("submodule %q: its name %q %s", sub.path, sub.name, problem)
		}
		if section.URL == "" {
			return nil, fmt.Errorf("submodule %q: .gitmodules gives no URL for it", sub.path)
		}
		var err error
		if sub.url, err = base.ParseRelative(string(section.URL), schemes); err != nil {
			return nil, fmt.Errorf("submodule %q: its URL %w", sub.path, urlProblem(err))
		}
		list = append(list, sub)
	}
	return list, checkSubmoduleNames(list)
}

// urlProblem rewrites an error of package volume for a URL that is not an option.
func urlProblem(err error) error {
	if bad, ok := errors.AsType[*volume.OptionError](err); ok {
		return fmt.Errorf("%q %s; allowed: %s", bad.Value, bad.Problem, bad.Allowed)
	}
	return err
}

// checkSubmodulePath returns what is wrong with the path of a submodule or with its name,
// which becomes a path below .git/modules. It returns "" if nothing is.
func checkSubmodulePath(name string) (problem string) {
	switch {
	case strings.HasPrefix(name, "-"):
		return "begins with a dash"
	case strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return "contains a control character"
	}
	// A git on another system may read this and take a backslash for a separator.
	for part := range strings.SplitSeq(strings.ReplaceAll(name, `\`, "/"), "/") {
		switch {
		case part == "" || part == "." || part == "..":
			return "has a part that is empty, . or .."
		case strings.EqualFold(part, ".git"):
			return "has a part that is .git"
		}
	}
	return ""
}

// checkSubmoduleNames returns an error if two names are the same, or if one is a parent
// directory of another: one repository would be inside the other then.
func checkSubmoduleNames(list []submodule) error {
	names := make(map[string]string)
	for _, s := range list {
		if other, ok := names[s.name]; ok {
			return fmt.Errorf("submodules %q and %q have the same name %q", other, s.path, s.name)
		}
		names[s.name] = s.path
	}
	for _, s := range list {
		for dir := path.Dir(s.name); dir != "."; dir = path.Dir(dir) {
			if other, ok := names[dir]; ok {
				return fmt.Errorf("submodule %q: its name %q lies within that of %q", s.path, s.name, other)
			}
		}
	}
	return nil
}

// submoduleBase returns what the submodules of a tree depend on in addition to its commit:
// the base of relative URLs.
func (s Spec) submoduleBase() string {
	if s.Files.Submodules == volume.SubmodulesNone {
		return ""
	}
	return s.URL.String()
}

// rule returns where the URLs in the repository may lead to.
func (sh *Shared) rule(s Spec) guard.Rule {
	return guard.Rule{Own: place(s.URL), Lookup: sh.LookupHost}
}

func place(u volume.URL) guard.Place { return guard.Place{Host: u.Host(), Port: u.Port()} }

// buildSubmodules checks out the submodules of a tree, and returns what they add to the
// configuration of the repository. Each comes from the same holder's store of its URL. The
// result is that of `git submodule update --init`: the submodule's path has its files and
// a .git that names its directory in .git/modules, which has its refs, packs and index.
func (c *Collection) buildSubmodules(ctx context.Context, s Spec, co checkout.Spec, like treeDirs, found checkout.Found) (config string, err error) {
	if s.Files.Submodules == volume.SubmodulesNone {
		return "", nil
	}
	b := submoduleBuilder{trees: c, spec: s, rule: c.shared.rule(s), top: co.Dir, like: like}
	defer func() {
		for _, release := range b.releases {
			release()
		}
	}()
	return b.build(ctx, superproject{found: found, url: s.URL, gitDir: ".git"})
}

// submoduleBuilder builds the submodules of one tree.
type submoduleBuilder struct {
	trees *Collection // of the volume's repository
	spec  Spec        // of the volume
	rule  guard.Rule
	top   string   // the tree
	like  treeDirs // of another tree, which has the times of files that are the same
	count int      // of submodules so far

	mu       sync.Mutex
	releases []func() // of the collections of submodules
}

// superproject is a repository in the tree whose submodules are checked out.
type superproject struct {
	found        checkout.Found
	url          volume.URL
	path, gitDir string // relative to the top of the tree
	depth        int
}

func (b *submoduleBuilder) build(ctx context.Context, p superproject) (config string, err error) {
	list, err := planSubmodules(p.found.Gitlinks, p.found.Submodules, p.url, b.trees.shared.Schemes)
	if err != nil || len(list) == 0 {
		return "", err
	}
	if p.depth == maxSubmoduleDepth {
		return "", list[0].wrap(fmt.Errorf("submodules are nested more than %d deep", maxSubmoduleDepth))
	}
	if b.count += len(list); b.count > maxSubmodules {
		return "", fmt.Errorf("the repository has more than %d submodules: use submodules=true or false, and update those that are needed in the container", maxSubmodules)
	}
	var g errgroup.Group
	g.SetLimit(submoduleFetches)
	for i := range list {
		g.Go(func() error {
			if err := b.fetch(ctx, &list[i]); err != nil {
				return list[i].wrap(err)
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return "", err
	}
	var text strings.Builder
	for _, sub := range list {
		if err := b.checkOut(ctx, p, sub); err != nil {
			return "", sub.wrap(err)
		}
		fmt.Fprintf(&text, "[submodule %s]\n\tactive = true\n\turl = %s\n", quoteConfig(sub.name), quoteConfig(sub.url.String()))
	}
	return text.String(), nil
}

// fetch brings the commit of a submodule into the store of its URL.
func (b *submoduleBuilder) fetch(ctx context.Context, sub *submodule) error {
	pin, err := b.rule.Check(ctx, place(sub.url))
	if err != nil {
		return err
	}
	ref, err := volume.ParseRef(sub.commit)
	if err != nil {
		return err
	}
	_, end := b.trees.remote.Doing.Begin(ctx, "fetching submodule "+sub.path, sub.url.String())
	defer end()
	c, release, err := b.trees.submodule(ctx, sub.url) // until its packs are linked
	if err != nil {
		return err
	}
	b.mu.Lock()
	b.releases = append(b.releases, release)
	b.mu.Unlock()
	source := remote.Source{URL: sub.url, Ref: ref, Pin: pin}
	sub.from, sub.spec = c, Spec{Source: source, Files: volume.Files{NoLFS: b.spec.Files.NoLFS}, UID: b.spec.UID, GID: b.spec.GID}
	_, _, err = c.remote.Resolve(ctx, source, nil)
	if giterror.KindOf(err) == giterror.KindCorrupt {
		healed, healErr := c.remote.HealStore(ctx, source)
		if err = errors.Join(err, healErr); healed {
			_, _, err = c.remote.Resolve(ctx, source, nil)
		}
	}
	return err
}

// checkOut checks out a submodule into the tree and, with submodules=recursive, the
// submodules in it.
func (b *submoduleBuilder) checkOut(ctx context.Context, p superproject, sub submodule) error {
	path, gitDir := filepath.Join(p.path, sub.path), filepath.Join(p.gitDir, "modules", sub.name)
	if err := requireEmptyDir(b.top, path); err != nil {
		return err
	}
	w := ownedWriter{uid: int(b.spec.UID), gid: int(b.spec.GID)}
	if w.mkdirs(b.top, gitDir); w.err != nil {
		return w.err
	}
	co := checkout.Spec{
		Store: sub.from.remote.StoreDir(sub.spec.History.Name()), Commit: sub.commit,
		Dir: filepath.Join(b.top, path), GitDir: filepath.Join(b.top, gitDir), UID: b.spec.UID, GID: b.spec.GID,
		NoLFS: b.spec.Files.NoLFS, Submodules: b.spec.Files.Submodules == volume.SubmodulesRecursive,
	}
	co.TimesFrom = b.like.reference(path, gitDir)
	found, err := checkout.Make(ctx, b.trees.remote.Git, co)
	if err != nil {
		return err
	}
	sub.from.warnUnencoded(ctx, sub.commit, found)
	err = sub.from.remote.FromStore(ctx, sub.spec.Source, func(store meta.Store, refs []gitref.PackedRef) error {
		return sub.from.buildModule(&w, b.top, path, gitDir, sub, store, refs)
	})
	if err != nil {
		return err
	}
	if err := sub.from.fillLFS(ctx, sub.spec, b.rule, co, found); err != nil {
		return err
	}
	if b.spec.Files.Submodules != volume.SubmodulesRecursive {
		return nil
	}
	config, err := b.build(ctx, superproject{found: found, url: sub.url, path: path, gitDir: gitDir, depth: p.depth + 1})
	if err != nil {
		return err
	}
	return appendFile(filepath.Join(b.top, gitDir, "config"), config)
}

// buildModule fills gitDir, the directory of a submodule in .git/modules, and writes the
// file .git at path that names it. Both are relative to top.
func (c *Collection) buildModule(w *ownedWriter, top, path, gitDir string, sub submodule, store meta.Store, refs []gitref.PackedRef) error {
	dir := filepath.Join(top, gitDir)
	if err := c.buildGitDir(w, dir, sub.spec, meta.Resolution{Commit: sub.commit}, store, refs); err != nil {
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
	w.file(filepath.Join(top, path, ".git"), []byte(link))
	config := "[core]\n\tworktree = " + quoteConfig(toPath) + "\n"
	// git creates the branch of the remote's HEAD before it detaches HEAD.
	for _, r := range refs {
		if short, ok := strings.CutPrefix(r.Name, "refs/heads/"); ok && r.Name == store.Head {
			w.mkdirs(dir, filepath.Dir(r.Name))
			w.file(filepath.Join(dir, r.Name), []byte(r.ID+"\n"))
			config += branchConfig(short)
		}
	}
	if w.err != nil {
		return w.err
	}
	return appendFile(filepath.Join(dir, "config"), config)
}

// requireEmptyDir returns an error unless path below top is an empty directory, and none
// of its parents is a symlink.
func requireEmptyDir(top, path string) error {
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

// appendFile appends text to an existing file.
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
