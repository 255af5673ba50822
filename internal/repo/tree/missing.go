package tree

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/git/giterror"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/volume"
	"github.com/helmdeck/repos/internal/work"
)

// With submodule_errors=warn a tree may lack submodules: a partial tree. It is used as long as
// they can't be had. A Mount tries them again, and builds the tree again when it gets one.
const (
	// tryAgainAfter is how long a partial tree is used without another try.
	tryAgainAfter = time.Minute
	// tryFor bounds how long a Mount waits for another try, which then continues without it.
	tryFor = 5 * time.Second
	// buildAgainAfter is how long a partial tree is used if what it lacks was fetched and could
	// not be checked out: only another build shows whether that has changed.
	buildAgainAfter = time.Hour
	// maxMissing, times the SizeFactor, bounds how many submodules a partial tree may lack, and maxWhy and maxModuleURL,
	// in bytes, what is recorded of each: records are in memory. A longer URL is not tried again.
	maxMissing   = 100
	maxWhy       = 300
	maxModuleURL = 500
)

// tooManyError says that a tree would have, or lack, too many submodules.
type tooManyError string

func (e tooManyError) Error() string {
	return string(e) + ": raise the setting, name those that are needed, such as submodules=true,libs/*, or use submodules=false"
}

// fatal returns the error of a submodule if it fails the build.
func (b *submoduleBuilder) fatal(ctx context.Context, p superproject, s submodule) error {
	if s.err == nil || b.spec.Files.PartialSubmodules && b.canLeave(ctx, s.err) {
		return nil
	}
	if _, inner := errors.AsType[*submoduleError](s.err); inner {
		return s.err // of a submodule in it
	}
	at := path.Join(p.path, s.path)
	err := fmt.Errorf("submodule %q%s: %w", at, s.where(), explain(s.err))
	if b.canLeave(ctx, s.err) {
		err = fmt.Errorf("%w; to go without it, create the volume with submodules=%s, or with submodule_errors=warn", err, b.spec.Files.Submodules.Without(at))
	}
	return &submoduleError{err}
}

// submoduleError is an error that names its submodule.
type submoduleError struct{ err error }

func (e *submoduleError) Error() string { return e.err.Error() }

func (e *submoduleError) Unwrap() error { return e.err }

// canLeave reports whether err is about the submodule alone. Otherwise it would fail the
// build without the submodule too, or says that the work has to end.
func (b *submoduleBuilder) canLeave(ctx context.Context, err error) bool {
	_, local := errors.AsType[*fs.PathError](err)
	if link := (*os.LinkError)(nil); errors.As(err, &link) {
		local = true
	}
	ended := ctx.Err() != nil || giterror.KindOf(err) == giterror.KindCanceled || errors.Is(err, work.ErrClosed) || errors.Is(err, b.trees.used.Gone)
	_, tooMany := errors.AsType[tooManyError](err)
	return !local && !ended && !tooMany && !giterror.NoSpace(err) && !disk.NoRoom(err)
}

// advice has what a reader can do about a submodule by the kind of the error, where that is
// not what it is about the volume's own repository. Nobody is asked to change the file of
// another.
var advice = map[giterror.Kind]string{
	giterror.KindAuth:        "the submodule is private, or does not exist: store a credential for its URL (docker repos credentials put), or check the one that is stored",
	giterror.KindNotFound:    "a host may give the same answer for a private repository: then store a credential for its URL (docker repos credentials put)",
	giterror.KindRefNotFound: "the repository at this URL does not have the commit, or no longer",
	giterror.KindRedirect:    "a submodule is not followed to another host",
	giterror.KindShallow:     "the submodule's remote is a shallow clone, which lacks history",
	giterror.KindLimit:       "the submodule is too large for the limits of the plugin",
	giterror.KindProtocol:    "only the schemes that the setting ALLOW_SCHEMES names are allowed besides https and http",
}

// explain returns err with the advice for a submodule.
func explain(err error) error {
	e, ok := err.(*giterror.Error)
	if !ok || e.Remedy != "" || advice[e.Kind] == "" {
		return err
	}
	own := *e // others may have the same error
	own.Remedy = advice[e.Kind]
	return &own
}

// where names the URL of a submodule in an error: that of the fetch, and that of .gitmodules if
// they differ.
func (s submodule) where() string {
	switch {
	case len(s.urls) == 0:
		return ""
	case s.isRewritten():
		return fmt.Sprintf(" (%s for %s)", s.urls[0], s.text)
	}
	return fmt.Sprintf(" (%s)", s.urls[0])
}

// isRewritten reports whether the submodule is fetched over another transport than that which
// .gitmodules names.
func (s submodule) isRewritten() bool {
	if len(s.urls) == 0 || strings.HasPrefix(s.text, ".") {
		return false
	}
	u, err := volume.ParseURL(s.text, volume.AllSchemes())
	return err == nil && u.Scheme() != s.urls[0].Scheme()
}

// leave notes that a submodule is missing, and empties its directory.
func (b *submoduleBuilder) leave(ctx context.Context, p superproject, s submodule) error {
	at := path.Join(p.path, s.path)
	m := meta.MissingSubmodule{Path: giterror.Printable(at), Why: giterror.Printable(explain(s.err).Error()), Commit: s.commit, Late: s.late}
	if len(m.Why) > maxWhy {
		m.Why = strings.ToValidUTF8(m.Why[:maxWhy], "") + "…"
	}
	u, err := p.url.ParseRelative(s.text, volume.AllSchemes())
	if text, base := u.String(), p.url.String(); err == nil && !s.final && len(text) <= maxModuleURL && len(base) <= maxModuleURL {
		m.URL, m.Base = text, base
	}
	if most := b.trees.git.SizeFactor().Of(maxMissing); len(b.missing) >= most {
		return fmt.Errorf("%w (%s: %s)", tooManyError(fmt.Sprintf("more than %d submodules can't be had %s", most, git.SizeSetting)), m.Path, m.Why)
	}
	b.missing = append(b.missing, m)
	b.trees.log.WithContext(ctx).WithError(explain(s.err)).WithField("submodule", m.Path).
		Warn("a submodule can't be had: its directory stays empty")
	if !s.late {
		return nil // nothing was written
	}
	return errors.Join(disk.RemoveContents(filepath.Join(b.top, at)), os.RemoveAll(filepath.Join(b.top, p.gitDir, "modules", s.name)))
}

// isPartial reports whether a tree lacks a submodule.
func isPartial(l meta.Layer) bool {
	for _, m := range l.Missing {
		if m.Commit != "" {
			return true
		}
	}
	return false
}

// partialID returns an ID for a partial tree. Each has another one, because a workspace may
// have the one before.
func partialID(shape, commit string) string { return layerID("tree", shape, commit, rand.Text()) }

// newestPartial returns the newest partial tree of each shape and commit in the list.
func newestPartial(list []meta.Layer) map[string]meta.Layer {
	newest := make(map[string]meta.Layer)
	for _, l := range list {
		key := l.Shape + l.Commit
		if old, ok := newest[key]; isPartial(l) && (!ok || old.CreatedAt.Before(l.CreatedAt) || old.CreatedAt.Equal(l.CreatedAt) && old.ID < l.ID) {
			newest[key] = l
		}
	}
	return newest
}

// Missing returns what the tree of a commit lacks, if there is one.
func (c *Collection) Missing(s Spec, commit string) []meta.MissingSubmodule {
	if s.Files.Submodules.Levels == volume.NoLevel {
		return nil
	}
	shape := c.shapeOf(s)
	if l, ok := c.layers.Get(meta.Tree, c.timely(treeID(shape, commit))); ok {
		return l.Missing
	}
	return newestPartial(c.layers.List(meta.Tree))[shape+commit].Missing
}

// completest returns the tree of an ID, which lacks nothing, or the partial tree of its shape
// and commit if it would not get better, or builds one.
func (c *Collection) completest(ctx context.Context, s Spec, id, shape, commit string, build builder) (meta.Layer, error) {
	if l, ok := c.layers.Get(meta.Tree, id); ok {
		return l, nil
	}
	old, ok := newestPartial(c.layers.List(meta.Tree))[shape+commit]
	if ok && !c.getsBetter(ctx, s, old) {
		return old, nil
	}
	return c.getOrShare(ctx, meta.Tree, id, func(ctx context.Context) (meta.Layer, error) {
		if l := newestPartial(c.layers.List(meta.Tree))[shape+commit]; l.ID != old.ID {
			return l, nil // published since
		}
		return c.buildInRoom(ctx, meta.Tree, build)
	})
}

// getsBetter reports whether a partial tree would lack less if it was built now. It tries the
// missing submodules again if the last try was a while ago. Work in advance tries nothing.
func (c *Collection) getsBetter(ctx context.Context, s Spec, l meta.Layer) bool {
	now := c.now()
	c.mu.Lock()
	at := c.tried[l.ID]
	c.mu.Unlock()
	if at.Before(l.CreatedAt) {
		at = l.CreatedAt
	}
	if age := now.Sub(at); age >= 0 && age < tryAgainAfter || work.JobOf(ctx).Yields() {
		return false
	}
	waiting, cancel := context.WithTimeout(ctx, tryFor)
	defer cancel()
	better, err := work.ShareTask(waiting, c.used, "submodules\x00"+l.ID, func(ctx context.Context) (bool, error) {
		better := c.tryMissing(ctx, s, l)
		if !better {
			c.mu.Lock()
			if c.tried == nil {
				c.tried = make(map[string]time.Time)
			}
			c.tried[l.ID] = c.now()
			c.mu.Unlock()
		}
		return better, nil
	})
	return better && err == nil
}

// tryMissing fetches the submodules that a partial tree lacks, and reports whether it got one,
// or whether only a build can show what has changed.
func (c *Collection) tryMissing(ctx context.Context, s Spec, l meta.Layer) bool {
	b := c.submoduleBuilder(s)
	defer b.release()
	var better atomic.Bool
	var g errgroup.Group
	g.SetLimit(submoduleFetches)
	for _, m := range l.Missing {
		if m.Late && c.now().Sub(l.CreatedAt) >= buildAgainAfter {
			better.Store(true)
		}
		base, err := volume.ParseURL(m.Base, volume.AllSchemes())
		if m.Late || m.Commit == "" || err != nil {
			continue
		}
		urls, err := volume.ModuleURL{Text: m.URL, Base: base, Own: s.URL}.Resolve(c.common.Schemes, c.common.SubmodulesAsWritten)
		if err != nil {
			continue
		}
		g.Go(func() error {
			if b.fetch(ctx, &submodule{path: m.Path, commit: m.Commit, urls: urls}) == nil {
				better.Store(true)
			}
			return nil
		})
	}
	_ = g.Wait()
	return better.Load()
}
