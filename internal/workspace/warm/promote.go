package warm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/disk/durable"
	"github.com/helmdeck/repos/internal/disk/upfile"
	"github.com/helmdeck/repos/internal/failpoint"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/overlay"
	"github.com/helmdeck/repos/internal/repo/layer"
)

// Ended is an ended workspace that nobody uses any more.
type Ended struct {
	Clone    string // key
	Upper    string // its directory
	UID, GID uint32
	Ref      string // as in its Want
	Text     string
	Commit   string
	Paths    []meta.WarmPath // as Select returned them
	// Tree has the directories of the layers that are not warm, topmost first, and Lower those of all layers
	// below the upper.
	Tree, Lower []string
	// Publish is unset if others get nothing of it.
	Publish bool
	// Marked is set if its container said, with publish=marked, that what it leaves is good: also what it did not change is
	// the state of its commit then. Label is what the container wrote into the mark.
	Marked bool
	Label  string
	// Leave is called for a file, or for a directory with all in it, that has left the workspace: it counts no more for
	// the limit, and the upper does not take it back.
	Leave func(ctx context.Context, path string) error
	// Until, if it is not zero, is when the last container ended whose files may be published.
	Until time.Time
	// Settled is that of cache.Job.
	Settled time.Time
	// Promoted is called when the warm paths were promoted, and at most the cache is still to be published. It may be nil.
	Promoted func()

	builtAt time.Time // nobody has written since
}

// leave is Leave, which may be nil.
func (e Ended) leave(ctx context.Context, path string) error {
	if e.Leave == nil {
		return nil
	}
	return e.Leave(ctx, path)
}

// Dirs returns the warm paths that Promote promotes. The cache is none of them, nor is what is like any other path.
func (e Ended) Dirs() []meta.WarmPath {
	return slices.DeleteFunc(slices.Clone(e.Paths), func(p meta.WarmPath) bool { return IsCache(p) || isLeftOut(p) })
}

// promotion is what an ended workspace has at a warm path.
type promotion struct {
	meta.WarmPath
	spot
	moves bool  // the head: the workspace changed the path, or says that it is good as it is
	err   error // why it can't be promoted
	size  disk.Size
	found owners
	// builtAt is not before the last write, nor before the times of files, as far as these are before latest.
	builtAt, latest time.Time

	head  meta.WarmHead // with the new layer
	layer meta.Layer
	temp  string // the directory of layer; "" for none
	moved bool   // into temp
}

// inLayer is where the directory goes.
func (p *promotion) inLayer() string { return filepath.Join(p.temp, filesPart, p.Path) }

// Promote moves the directories at the warm paths of a workspace out of its upper. Each
// becomes the topmost layer of its head. With Marked, a head at a path without changes keeps its layers, and becomes
// that of the workspace's commit. All heads move in one change of the database, so others find what the workspace left, or
// what was there before, whole. What can't be promoted stays in the upper, which is logged and is not an error. The caller
// still holds the layers that the workspace used. If ctx ends first, all stays as it is, and can be promoted later; what of the
// cache was moved by then is published.
//
// What is new in the cache is published afterwards, unless a directory has hard links into it, which go with that.
func (m *Manager) Promote(ctx context.Context, e Ended) error {
	e.builtAt = m.config.Now()
	list, err := m.locateAll(e)
	defer func() {
		for _, p := range list {
			p.close()
		}
	}()
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the upper is gone
	}
	errs := []error{err}
	cached := slices.IndexFunc(e.Paths, IsCache)
	publishCache := func() {
		if cached < 0 {
			return
		}
		if err := m.promoteCache(ctx, e, e.Paths[cached]); err != nil {
			errs = append(errs, fmt.Errorf("cache: %w", err))
		}
		cached = -1
	}
	c := &copies{pace: disk.NewPace(0)}
	defer c.end()
	m.verifyAll(ctx, e, list, c, func(p *promotion) bool { return p.moves && p.err == nil })
	linked := func(p *promotion) bool { return errors.Is(p.err, errLinked) }
	if slices.ContainsFunc(list, linked) {
		publishCache()
		m.verifyAll(ctx, e, list, c, linked)
	}
	moved := m.move(ctx, e, list)
	c.end() // the next one sees which heads have moved
	if moved != nil {
		errs = append(errs, fmt.Errorf("warm paths: %w", moved))
	}
	if moved != nil && ctx.Err() != nil {
		return errors.Join(errs...) // the next start tries again
	}
	for _, p := range list {
		switch {
		case p.err != nil:
			m.config.Log.WithContext(ctx).WithField("clone", e.Clone).Infof("warm path %q is not carried over: %v", p.Path, p.err)
		case moved == nil:
			if err := m.settle(ctx, e, p, list); err != nil {
				errs = append(errs, fmt.Errorf("warm path %q: %w", p.Path, err))
			}
		}
	}
	if e.Promoted != nil {
		e.Promoted()
	}
	publishCache()
	return errors.Join(errs...)
}

var errInterrupted = errors.New("its promotion was interrupted, and a part of what the workspace left may be gone")

// locateAll returns what a workspace has at its warm paths. The error is fs.ErrNotExist if the upper is gone.
func (m *Manager) locateAll(e Ended) (list []*promotion, err error) {
	_, begun, err := upfile.Attribute(e.Upper, movedAttr)
	if err != nil {
		return nil, err
	}
	for _, path := range e.Dirs() {
		p := &promotion{WarmPath: path, builtAt: e.builtAt, latest: e.builtAt.Add(maxAhead), found: owners{want: owner{int(e.UID), int(e.GID)}}}
		p.spot, p.err = locate(e.Upper, path.Path)
		p.moves = p.state != untouched || e.Marked && !begun
		if p.err == nil && p.moves && begun {
			p.err = errInterrupted
		}
		list = append(list, p)
	}
	return list, nil
}

// verifyAll finds out which paths can be promoted, and makes them complete, of those that it is to look at.
func (m *Manager) verifyAll(ctx context.Context, e Ended, list []*promotion, c *copies, look func(*promotion) bool) {
	disk.Nice(niceness, func() {
		for _, p := range list {
			if look(p) {
				p.err = m.verify(ctx, e, p, c)
			}
		}
	})
}

// settle does what is left to do at a path when the heads have moved, and nothing is undone any more.
func (m *Manager) settle(ctx context.Context, e Ended, p *promotion, list []*promotion) (err error) {
	switch {
	case p.moved:
		err = e.leave(ctx, filepath.Join(m.files(e.Clone, p.layer.ID)[0], p.Path))
		if errors.Is(err, fs.ErrNotExist) {
			err = nil // the layer was removed meanwhile
		}
	case p.state == removed && p.dir != nil:
		err = os.Remove(p.path()) // the whiteout
	}
	return errors.Join(err, tidy(e, p.Path, list))
}

// tidy removes the directories, and their whiteouts, from an upper that exist only because
// of a warm path below them, because they are not changes of the workspace. Those stay that hide another path of list,
// which stays removed.
func tidy(e Ended, rel string, list []*promotion) error {
	for at := path.Dir(rel); at != "."; at = path.Dir(at) {
		if slices.ContainsFunc(list, func(p *promotion) bool {
			return p.err != nil && p.state == removed && strings.HasPrefix(p.Path, at+"/")
		}) {
			return nil
		}
		reason, err := leaveOut(e.Tree, at)
		if err != nil || reason != "" {
			return err // the directory is part of the commit
		}
		s, err := locate(e.Upper, at)
		if err == nil && s.dir == nil && s.state == removed {
			continue // with a parent
		}
		if err != nil || s.dir == nil {
			return err
		}
		if s.strange == nil {
			err = os.Remove(s.path())
		}
		s.dir.Close()
		if errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EEXIST) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// verify finds out whether a path can be promoted, and makes what is there complete.
func (m *Manager) verify(ctx context.Context, e Ended, p *promotion, c *copies) error {
	if p.strange != nil {
		return p.strange
	}
	if _, err := m.nextHead(e, p); err != nil || p.state != written {
		return err // before the work of verify
	}
	limited, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	limit := time.AfterFunc(publishTime, func() { cancel(fmt.Errorf("it takes longer than %v", publishTime)) })
	defer limit.Stop()
	shown := &shown{layers: append([]string{e.Upper}, e.Lower...), pace: c.pace}
	shown.copier = func() (*upfile.Copier, error) {
		if c.done == nil { // it waits for other promotions, which does not count
			limit.Stop()
			defer limit.Reset(publishTime)
		}
		return m.copier(ctx, limited, e, p, c)
	}
	var err error
	p.size, err = verify(limited, p.path(), shown, p.Path, p.note)
	if err = errors.Join(err, shown.close()); err != nil {
		return cmp.Or(context.Cause(limited), err)
	}
	return p.found.repair(ctx, p.path())
}

// move moves the heads of the paths without an error, in one change: it renames each directory to be the topmost layer,
// empties the head if the workspace removed the directory, or leaves its layers if that did not change it. The error is
// about all of them: then each directory is in the upper again, or the error says why not. Once the first one is
// renamed, ctx is not looked at any more.
func (m *Manager) move(ctx context.Context, e Ended, list []*promotion) error {
	ready := slices.DeleteFunc(slices.Clone(list), func(p *promotion) bool { return !p.moves || p.err != nil })
	if err := context.Cause(ctx); err != nil || len(ready) == 0 {
		return err
	}
	var edited []string
	var err error
	if slices.ContainsFunc(ready, func(p *promotion) bool { return p.state == written }) {
		disk.Nice(niceness, func() { edited, err = editedFiles(ctx, e, m.times(e)) })
		if err != nil {
			return err
		}
	}
	unlock, err := m.lock(ctx, e.Clone)
	if err != nil {
		return err
	}
	defer unlock()
	defer func() {
		for _, p := range list {
			if p.temp != "" && !p.moved { // else it is a layer, or has the only copy
				_ = m.config.Layers.Set(e.Clone).Discard(p.temp)
			}
		}
	}()
	for _, p := range ready {
		p.err = m.prepare(ctx, e, p, edited)
	}
	ready = slices.DeleteFunc(ready, func(p *promotion) bool { return p.err != nil })
	if err := context.Cause(ctx); err != nil || len(ready) == 0 {
		return err
	}
	if err := unix.Lsetxattr(e.Upper, movedAttr, nil, 0); err != nil {
		return err
	}
	var ch change
	for _, p := range ready {
		if p.temp != "" {
			// The layer has no record yet: after a crash the sweep removes it. It is still of the workspace's project.
			if p.err = durable.RenameVolatile(p.path(), p.inLayer()); p.err != nil {
				continue
			}
			p.moved = true
			failpoint.Hit("warm/promote/moved")
			ch.made = append(ch.made, layer.Built{Layer: p.layer, Temp: p.temp})
		}
		ch.heads = append(ch.heads, p.head)
	}
	if err := m.commit(e.Clone, ch); err != nil {
		return errors.Join(err, undo(e, ready))
	}
	for _, h := range ch.heads {
		if len(h.Chain) >= flattenAt {
			m.flattenSoon(h.Clone, h.Key)
		}
	}
	return nil
}

// undo renames the directories back to the upper. If it can, the next try begins anew.
func undo(e Ended, list []*promotion) (err error) {
	for _, p := range list {
		if p.moved {
			back := durable.RenameVolatile(p.inLayer(), p.path())
			p.moved = back != nil
			err = errors.Join(err, back)
		}
	}
	if err == nil {
		err = unix.Lremovexattr(e.Upper, movedAttr)
	}
	return err
}

// prepare sets the head as it will be and, for a directory, makes the layer, which lacks only the directory itself.
func (m *Manager) prepare(ctx context.Context, e Ended, p *promotion, edited []string) (err error) {
	if p.head, err = m.nextHead(e, p); err != nil {
		return err
	}
	if m.config.Layers.Set(e.Clone).Missing(meta.WarmLayer, p.head.Chain...) {
		return errors.New("a layer below it is lost")
	}
	if p.state != written {
		return nil
	}
	l := &p.layer
	*l = meta.Layer{Kind: meta.WarmLayer, ID: newID(), Commit: e.Commit, Base: p.Base, BuiltAt: p.builtAt}
	l.Foreign = m.foreign(ctx, e.Clone, p.Path, e.UID, p.found.foreign, p.head.Chain)
	p.head.Chain = append([]string{l.ID}, p.head.Chain...)
	if p.temp, err = m.tempDir(e.Clone, p.Path, e.UID, e.GID); err != nil {
		return err
	}
	base := filepath.Join(p.temp, basePart)
	l.Edited = len(edited) > 0
	if err := m.noteBase(e, base, edited); err != nil {
		return err
	}
	own, err := disk.Query{Own: true}.Take(ctx, base)
	l.Size = meta.Measured{Size: p.size.Add(own.Size), At: m.config.Now()}
	return err
}

// tempDir makes a temporary directory for a layer, with its directory of files and the parents of the path rel in that.
// They have the mode and owner of a checkout's directories, because overlayfs shows those of
// the topmost layer that has a directory.
func (m *Manager) tempDir(clone, rel string, uid, gid uint32) (string, error) {
	temp, err := m.config.Layers.Set(clone).Temp(meta.WarmLayer)
	if err != nil {
		return "", err
	}
	files := filepath.Join(temp, filesPart)
	if err = os.Mkdir(files, 0o755); err == nil { // a mount has it, and not temp, as a layer
		err = overlay.Mark(files)
	}
	if err == nil && path.Dir(rel) != "." {
		err = owner{int(uid), int(gid)}.mkdirs(files, path.Dir(rel))
	}
	if err != nil {
		return "", errors.Join(err, m.config.Layers.Set(clone).Discard(temp))
	}
	return temp, nil
}
