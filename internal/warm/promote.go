package warm

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/durable"
	"github.com/helmdeck/repos/internal/failpoint"
	"github.com/helmdeck/repos/internal/meta"
)

// Ended is a workspace that has ended, and that nobody uses any more.
type Ended struct {
	Clone    string // key
	Upper    string // its directory
	UID, GID uint32
	Ref      string // as in its Want
	Text     string
	Paths    []meta.WarmPath // as Take returned them
	// Tree are the layers of the workspace that are not warm, topmost first.
	Tree []string
}

// Promote makes what a workspace has written at its warm paths the topmost layers
// of their heads, or drops it: afterwards it is gone from the upper, but for what
// is no directory. The workspace still holds the layers that it stands on. What is
// dropped is logged, and no error. When ctx ends first, the rest is left as it is,
// to be promoted later.
func (m *Manager) Promote(ctx context.Context, e Ended) error {
	var errs []error
	for _, p := range e.Paths {
		if p.LeftOut != "" {
			continue // an ordinary part of the workspace
		}
		err := m.promote(ctx, e, p)
		if err == nil {
			err = tidy(e, p.Path)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("warm path %q: %w", p.Path, err))
		}
	}
	return errors.Join(errs...)
}

func (m *Manager) promote(ctx context.Context, e Ended, p meta.WarmPath) error {
	s, err := find(e.Upper, p.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if s.dir != nil {
		defer s.dir.Close()
	}
	switch s.state {
	case untouched:
		return nil
	case removed:
		err := m.empty(ctx, e, p)
		if s.dir != nil {
			err = errors.Join(err, unix.Unlinkat(int(s.dir.Fd()), s.name, 0))
		}
		return err
	case written:
		s.reason, err = m.publish(ctx, e, p, s)
		switch {
		case err != nil && ctx.Err() != nil:
			return err // the next start goes on with it
		case err != nil:
			s.reason = err.Error()
		case s.reason == "":
			return nil
		}
	}
	m.Log.WithField("clone", e.Clone).Infof("warm path %q is not carried over: %s", p.Path, s.reason)
	if s.dir == nil {
		return nil
	}
	if _, err = m.Trash.Put(s.path(), "warm"); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// tidy takes out of an upper the directories that were made for a warm path alone,
// or their whiteouts: they are no changes of the workspace's.
func tidy(e Ended, rel string) error {
	for at := path.Dir(rel); at != "."; at = path.Dir(at) {
		reason, err := leaveOut(e.Tree, at)
		if err != nil || reason != "" {
			return err // the tree's
		}
		s, err := find(e.Upper, at)
		if err != nil || s.dir == nil {
			return err
		}
		flags := 0
		if s.state == written {
			flags = unix.AT_REMOVEDIR
		}
		if s.state == written || s.state == removed {
			err = unix.Unlinkat(int(s.dir.Fd()), s.name, flags)
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

// publish promotes what is at s, or says why not.
func (m *Manager) publish(ctx context.Context, e Ended, p meta.WarmPath, s spot) (reason string, err error) {
	if reason := m.refuse(e, p); reason != "" {
		return reason, nil
	}
	size, reason, err := verify(ctx, s.path())
	if err != nil || reason != "" {
		return reason, err
	}
	unlock, err := m.lock(ctx, e.Clone)
	if err != nil {
		return "", err
	}
	defer unlock()
	if reason := m.refuse(e, p); reason != "" {
		return reason, nil
	}
	l := meta.Layer{Kind: meta.WarmLayer, ID: newID(), Size: meta.Measured{Size: size, At: m.Now()}}
	h, _ := m.head(e, p)
	h.Chain = slices.Insert(slices.Clone(h.Chain), 0, l.ID)
	if s.opaque {
		h.Chain = h.Chain[:1]
	} else if !m.known(e.Clone, h.Chain[1:]) {
		return "a layer that it lies on was lost", nil
	}
	temp, err := m.take(e, p, s.path())
	if err != nil {
		return "", err
	}
	if err := m.commit(e.Clone, change{layer: &l, temp: temp, heads: []meta.WarmHead{h}}); err != nil {
		return "", errors.Join(err, m.Set(e.Clone).Discard(temp))
	}
	if len(h.Chain) >= flattenAt {
		m.flattenSoon(h.Clone, h.Key)
	}
	return "", nil
}

// take renames what is at from into a layer in the making. It has no record yet: a
// crash leaves it to the sweep.
func (m *Manager) take(e Ended, p meta.WarmPath, from string) (temp string, err error) {
	if temp, err = m.tempDir(e.Clone, p.Path, e.UID, e.GID); err != nil {
		return "", err
	}
	if err := durable.RenameVolatile(from, filepath.Join(temp, p.Path)); err != nil {
		return "", errors.Join(err, m.Set(e.Clone).Discard(temp))
	}
	failpoint.Hit("warm/promote/moved")
	return temp, nil
}

// tempDir makes a directory for a layer in the making, with the directories that
// rel is in. They show what a checkout's do: overlayfs takes mode and owner of a
// directory from the topmost layer that has it.
func (m *Manager) tempDir(clone, rel string, uid, gid uint32) (string, error) {
	temp, err := m.Set(clone).Temp(meta.WarmLayer)
	if err != nil {
		return "", err
	}
	at := temp
	for name := range strings.SplitSeq(path.Dir(rel), "/") {
		if err != nil || name == "." {
			break
		}
		at = filepath.Join(at, name)
		err = errors.Join(os.Mkdir(at, 0o755), os.Chmod(at, 0o755), os.Chown(at, int(uid), int(gid)))
	}
	if err != nil {
		return "", errors.Join(err, m.Set(clone).Discard(temp))
	}
	return temp, nil
}

// empty has a head say that there is nothing.
func (m *Manager) empty(ctx context.Context, e Ended, p meta.WarmPath) error {
	unlock, err := m.lock(ctx, e.Clone)
	if err != nil {
		return err
	}
	defer unlock()
	if m.refuse(e, p) != "" {
		return nil
	}
	h, _ := m.head(e, p)
	h.Chain = nil
	return m.commit(e.Clone, change{heads: []meta.WarmHead{h}})
}

// refuse says why a workspace may not move a head.
func (m *Manager) refuse(e Ended, p meta.WarmPath) string {
	if p.ReadOnly {
		return "the workspace publishes nothing"
	}
	h, ok := m.head(e, p)
	if !ok {
		return "another workspace has moved it on in the meantime"
	}
	if len(h.Chain) >= maxChain {
		m.flattenSoon(h.Clone, h.Key) // no promotion would
		return "its layers have not been joined yet"
	}
	return ""
}

// head returns the head that a workspace may move, with the chain that what it has
// written lies on; ok is false when the head is no longer where the workspace
// found it.
func (m *Manager) head(e Ended, p meta.WarmPath) (h meta.WarmHead, ok bool) {
	w := Want{Clone: e.Clone, UID: e.UID, GID: e.GID, Text: e.Text}
	now := m.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.cloneLocked(e.Clone)
	h, there := c.heads[p.Head]
	switch {
	case !there:
		h = w.headOf(p.Path, e.Ref)
		ok = p.From != "" || len(p.Chain) == 0
		h.Chain = p.Chain
	case p.From == "":
		ok = slices.Equal(h.Chain, p.Chain) || slices.Equal(c.expand(h.Chain), p.Chain)
	}
	h.MovedAt, h.Used = now, now
	return h, ok
}

// known reports whether all layers of a chain have records: those of before a loss
// of the database have none.
func (m *Manager) known(clone string, chain []string) bool {
	return !slices.ContainsFunc(chain, func(id string) bool { _, ok := m.Set(clone).Get(meta.WarmLayer, id); return !ok })
}

// expand puts the chains that were joined in the place of the layers made of them.
func (c *clone) expand(chain []string) []string {
	var list []string
	for _, id := range chain {
		if l, _ := c.layers.Get(meta.WarmLayer, id); len(l.Of) > 0 {
			list = append(list, l.Of...)
		} else {
			list = append(list, id)
		}
	}
	return list
}
