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
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/git/giterror"
	"github.com/helmdeck/repos/internal/git/gitref"
	"github.com/helmdeck/repos/internal/git/guard"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/repo/checkout"
	"github.com/helmdeck/repos/internal/repo/remote"
	"github.com/helmdeck/repos/internal/volume"
	"github.com/helmdeck/repos/internal/work"
)

const (
	// maxSubmodules, times the SizeFactor, and maxSubmoduleDepth bound how much one commit can
	// make the plugin fetch. Most large repositories have up to two hundred submodules, four
	// levels deep; Chromium has some hundreds more, and a repository that is its own submodule
	// infinitely many.
	maxSubmodules     = 500
	maxSubmoduleDepth = 10
	// submoduleFetches is the number of concurrent fetches for one tree.
	submoduleFetches = 4
)

// submodule is a submodule to check out. Its name, path and URL come from the repository,
// and were checked, if there is no err.
type submodule struct {
	name, path, commit string
	text               string       // the URL in .gitmodules
	urls               []volume.URL // where it may be, the likeliest first
	leftOut            bool         // the volume does not want it
	err                error        // why it can't be had
	final              bool         // err is about the commit itself
	late               bool         // err came after the fetch, and files may have been written
	// fetch sets these: where it is, the Collection of that URL, and what to check out from
	// there.
	url  volume.URL
	from *Collection
	spec Spec
}

// submoduleBase returns what the submodules of a tree depend on in addition to its commit
// and options: the base of relative URLs, and whether URLs are changed.
func (c *Collection) submoduleBase(s Spec) string {
	if s.Files.Submodules.Levels == volume.NoLevel {
		return ""
	}
	return fmt.Sprint(s.URL, c.common.SubmodulesAsWritten)
}

// rule returns where the URLs in the repository may lead to.
func (o *Common) rule(s Spec) guard.Rule {
	return guard.Rule{Own: hostPort(s.URL), Lookup: o.LookupHost}
}

func hostPort(u volume.URL) guard.HostPort { return guard.HostPort{Host: u.Host(), Port: u.Port()} }

// buildSubmodules checks out the submodules of the tree l, and notes what they add to the
// configuration of the repository, and which are missing. Each comes from the same subject's
// store of its URL. The result is that of `git submodule update --init`: the submodule's
// path has its files and a .git that names its directory in .git/modules, which has its
// refs, packs and index.
func (c *Collection) buildSubmodules(ctx context.Context, s Spec, l *meta.Layer, co checkout.Spec, like treeDirs, found checkout.Found) (err error) {
	if s.Files.Submodules.Levels == volume.NoLevel {
		return nil
	}
	b := c.submoduleBuilder(s)
	defer b.release()
	b.top, b.like = co.Dir, like
	l.Modules, err = b.build(ctx, superproject{found: found, url: s.URL, gitDir: ".git"})
	for _, pattern := range s.Files.Submodules.Unmatched(b.seen) {
		b.missing = append(b.missing, meta.MissingSubmodule{Path: pattern, Why: "no submodule that is checked out matches it"})
	}
	l.Missing = b.missing
	return err
}

// submoduleBuilder builds the submodules of one tree.
type submoduleBuilder struct {
	trees   *Collection // of the volume's repository
	spec    Spec        // of the volume
	rule    guard.Rule
	top     string   // the tree
	like    treeDirs // of another tree, which has the times of files that are the same
	count   int      // of submodules so far
	seen    []string // paths of all submodules, also of those that are left out
	missing []meta.MissingSubmodule

	mu       sync.Mutex
	releases []func() // of the collections of submodules
}

func (c *Collection) submoduleBuilder(s Spec) *submoduleBuilder {
	return &submoduleBuilder{trees: c, spec: s, rule: c.common.rule(s)}
}

// release lets the stores of the submodules go.
func (b *submoduleBuilder) release() {
	for _, release := range b.releases {
		release()
	}
}

// superproject is a repository in the tree whose submodules are checked out.
type superproject struct {
	found        checkout.Found
	url          volume.URL
	path, gitDir string // relative to the top of the tree
	depth        int
}

func (b *submoduleBuilder) build(ctx context.Context, p superproject) (config string, err error) {
	list := b.plan(p)
	for i := range list {
		if list[i].leftOut {
			continue
		}
		b.count++
		if p.depth == maxSubmoduleDepth {
			list[i].refuse(fmt.Errorf("submodules are nested more than %d deep", maxSubmoduleDepth))
		}
		if err := b.fatal(ctx, p, list[i]); err != nil {
			return "", err
		}
	}
	if most := b.trees.git.SizeFactor().Of(maxSubmodules); b.count > most {
		return "", tooManyError(fmt.Sprintf("the repository has more than %d submodules %s", most, git.SizeSetting))
	}
	var g errgroup.Group
	g.SetLimit(submoduleFetches)
	for i := range list {
		sub := &list[i]
		if sub.leftOut || sub.err != nil {
			continue
		}
		g.Go(func() error {
			sub.err = b.fetch(ctx, sub)
			return b.fatal(ctx, p, *sub)
		})
	}
	if err := g.Wait(); err != nil {
		return "", err
	}
	var text strings.Builder
	for _, sub := range list {
		if err := b.fill(ctx, p, &sub); err != nil {
			return "", err
		}
		text.WriteString(sub.config())
	}
	return text.String(), nil
}

// fill checks out a submodule, or leaves its directory empty.
func (b *submoduleBuilder) fill(ctx context.Context, p superproject, sub *submodule) error {
	if sub.leftOut {
		return nil
	}
	if sub.err == nil {
		if err := requireEmptyDir(b.top, path.Join(p.path, sub.path)); err != nil {
			sub.refuse(err)
		}
	}
	if sub.err == nil {
		sub.err = b.checkOut(ctx, p, *sub)
		sub.late = sub.err != nil
	}
	if sub.err == nil {
		return nil
	}
	if err := b.fatal(ctx, p, *sub); err != nil {
		return err
	}
	return b.leave(ctx, p, *sub)
}

// config returns the section of a submodule in the configuration of its superproject. It is
// that of `git submodule init`, also if the submodule could not be had: git submodule update
// tries again then. One that is left out has only a URL that is not that of .gitmodules, so
// that git submodule update --init finds it too.
func (s submodule) config() string {
	url, active := s.url, true
	if url == (volume.URL{}) && len(s.urls) > 0 {
		url = s.urls[0]
	}
	if s.leftOut && !s.isRewritten() || url == (volume.URL{}) {
		return ""
	}
	if s.leftOut {
		active = false
	}
	return fmt.Sprintf("[submodule %s]\n\tactive = %v\n\turl = %s\n", quoteConfig(s.name), active, quoteConfig(url.String()))
}

// fetch brings the commit of a submodule into the store of the first of its URLs that has
// it. The error is that of the first URL, or of one that has the repository.
func (b *submoduleBuilder) fetch(ctx context.Context, sub *submodule) (first error) {
	for _, u := range sub.urls {
		err := b.fetchFrom(ctx, sub, u)
		if err == nil {
			sub.url = u
			return nil
		}
		if first == nil || giterror.KindOf(err) == giterror.KindRefNotFound { // which says more than that nothing is there
			first = err
		}
		absent := errors.Is(err, b.trees.used.Gone) && work.JobOf(ctx).Yields()
		if !absent && (!b.canLeave(ctx, err) || giterror.KindOf(err).Transient()) {
			break // it says nothing about the other URLs
		}
	}
	return first
}

// fetchFrom brings the commit of a submodule into the store of a URL.
func (b *submoduleBuilder) fetchFrom(ctx context.Context, sub *submodule, u volume.URL) error {
	pin, err := b.rule.Check(ctx, hostPort(u))
	if err != nil {
		return err
	}
	ref, err := volume.ParseRef(sub.commit)
	if err != nil {
		return err
	}
	_, end := b.trees.doing.Begin(ctx, "fetching submodule "+sub.path, u.String())
	defer end()
	c, release, err := b.trees.submodule(ctx, u) // until its packs are linked
	if err != nil {
		return err
	}
	b.mu.Lock()
	b.releases = append(b.releases, release)
	b.mu.Unlock()
	source := remote.Source{URL: u, Ref: ref, Pin: pin, Others: remote.OthersIgnored}
	sub.from, sub.spec = c, Spec{Source: source, Files: volume.Files{NoLFS: b.spec.Files.NoLFS}, UID: b.spec.UID, GID: b.spec.GID}
	return c.repo.Snapshot(ctx, source, nil)
}

// checkOut checks out a submodule into the tree, where its directory is empty, and, with submodules=recursive, the
// submodules in it.
func (b *submoduleBuilder) checkOut(ctx context.Context, p superproject, sub submodule) error {
	path, gitDir := filepath.Join(p.path, sub.path), filepath.Join(p.gitDir, "modules", sub.name)
	w := ownedWriter{uid: int(b.spec.UID), gid: int(b.spec.GID)}
	if w.mkdirs(b.top, gitDir); w.err != nil {
		return w.err
	}
	co := checkout.Spec{
		Store: sub.from.repo.StoreDir(sub.spec.History.Name()), Commit: sub.commit,
		Dir: filepath.Join(b.top, path), GitDir: filepath.Join(b.top, gitDir), UID: b.spec.UID, GID: b.spec.GID,
		NoLFS: b.spec.Files.NoLFS, Submodules: b.spec.Files.Submodules.Levels == volume.AllLevels,
	}
	co.TimesFrom = b.like.reference(path, gitDir)
	found, err := checkout.Make(ctx, b.trees.git, co)
	if err != nil {
		return err
	}
	sub.from.warnUnencoded(ctx, sub.commit, found)
	var snap *remote.Snapshot // the record has the commit
	var refs []gitref.PackedRef
	err = sub.from.repo.Snapshot(ctx, sub.spec.Source, func(s *remote.Snapshot) (err error) {
		snap = s
		refs, err = s.Refs(ctx)
		return err
	})
	if err == nil {
		err = sub.from.buildModule(ctx, &w, b.top, path, gitDir, sub, snap, refs)
	}
	if err != nil {
		return err
	}
	if err := sub.from.fillLFS(ctx, sub.spec, b.rule, co, found); err != nil {
		return err
	}
	if b.spec.Files.Submodules.Levels != volume.AllLevels {
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
func (c *Collection) buildModule(ctx context.Context, w *ownedWriter, top, path, gitDir string,
	sub submodule, snap *remote.Snapshot, refs []gitref.PackedRef,
) error {
	dir := filepath.Join(top, gitDir)
	if err := c.buildGitDir(ctx, w, dir, sub.spec, snap, meta.Resolution{Commit: sub.commit}, refs); err != nil {
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
		if short, ok := strings.CutPrefix(r.Name, "refs/heads/"); ok && r.Name == snap.Store.Head {
			w.mkdirs(dir, filepath.Dir(r.Name))
			w.file(filepath.Join(dir, r.Name), []byte(r.ID+"\n"))
			c.cloneLog(dir, sub.url, time.Time{}).cloned(w, r.Name, r.ID)
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
