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

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/durable"
	"github.com/helmdeck/repos/internal/failpoint"
	"github.com/helmdeck/repos/internal/meta"
)

// Ended is an ended workspace that nobody uses any more.
type Ended struct {
	Clone    string // key
	Upper    string // its directory
	UID, GID uint32
	Ref      string // as in its Want
	Text     string
	Paths    []meta.WarmPath // as Select returned them
	// Tree has the directories of the layers that are not warm, topmost first.
	Tree []string
}

// Promote moves the directories at the warm paths of a workspace out of its upper. Each
// becomes the topmost layer of its head, or goes to the trash, which is logged and is not an
// error. Files and links at a warm path stay in the upper. The caller still holds the layers
// that the workspace used. If ctx ends first, the remaining paths stay as they are, and can
// be promoted later.
func (m *Manager) Promote(ctx context.Context, e Ended) error {
	var errs []error
	for _, p := range e.Paths {
		if p.LeftOut != "" {
			continue // it is like any other path
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
	s, err := locate(e.Upper, p.Path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && s.state == untouched {
		return nil
	}
	if err != nil {
		return err
	}
	defer s.dir.Close() // Close does nothing if dir is nil
	if err := m.publish(ctx, e, p, s); err != nil {
		if ctx.Err() != nil {
			return err // the next start tries again
		}
		m.Log.WithContext(ctx).WithField("clone", e.Clone).Infof("warm path %q is not carried over: %v", p.Path, err)
	}
	switch {
	case s.dir == nil:
		return nil
	case s.state == removed:
		return os.Remove(s.path()) // the whiteout
	}
	return m.Trash.Clear(s.path(), "warm", disk.Size{})
}

// tidy removes the directories, and their whiteouts, from an upper that exist only because
// of a warm path below them, because they are not changes of the workspace.
func tidy(e Ended, rel string) error {
	for at := path.Dir(rel); at != "."; at = path.Dir(at) {
		reason, err := leaveOut(e.Tree, at)
		if err != nil || reason != "" {
			return err // the directory is part of the commit
		}
		s, err := locate(e.Upper, at)
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

// publish moves the head: it renames a directory at s to be the topmost layer, or empties
// the head if the workspace removed the directory. The error may also say why the workspace
// must not move the head.
func (m *Manager) publish(ctx context.Context, e Ended, p meta.WarmPath, s spot) error {
	if s.strange != nil {
		return s.strange
	}
	if _, err := m.head(e, p); err != nil {
		return err // before the work of verify
	}
	var size disk.Size
	if s.state == written {
		var err error
		if size, err = verify(ctx, s.path()); err != nil {
			return err
		}
	}
	unlock, err := m.lock(ctx, e.Clone)
	if err != nil {
		return err
	}
	defer unlock()
	h, err := m.head(e, p)
	if err != nil {
		return err
	}
	if s.state == removed {
		h.Chain = nil
		return m.commit(e.Clone, change{heads: []meta.WarmHead{h}})
	}
	if s.opaque {
		h.Chain = nil
	}
	layers := m.Set(e.Clone)
	if layers.Missing(meta.WarmLayer, h.Chain...) {
		return errors.New("a layer below it is lost")
	}
	l := meta.Layer{Kind: meta.WarmLayer, ID: newID(), Size: meta.Measured{Size: size, At: m.Now()}}
	h.Chain = append([]string{l.ID}, h.Chain...)
	temp, err := m.tempDir(e.Clone, p.Path, e.UID, e.GID)
	if err != nil {
		return err
	}
	// The layer has no record yet: after a crash the sweep removes it.
	err = durable.RenameVolatile(s.path(), filepath.Join(temp, p.Path))
	if err == nil {
		failpoint.Hit("warm/promote/moved")
		err = m.commit(e.Clone, change{layer: &l, temp: temp, heads: []meta.WarmHead{h}})
	}
	if err != nil {
		return errors.Join(err, layers.Discard(temp))
	}
	if len(h.Chain) >= flattenAt {
		m.flattenSoon(h.Clone, h.Key)
	}
	return nil
}

// tempDir makes a temporary directory for a layer, with the parents of the path rel in it.
// They have the mode and owner of a checkout's directories, because overlayfs shows those of
// the topmost layer that has a directory.
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

// head returns the head that a workspace is about to move, with the chain below the new
// layer. The error says why the workspace must not move it.
func (m *Manager) head(e Ended, p meta.WarmPath) (meta.WarmHead, error) {
	if p.ReadOnly {
		return meta.WarmHead{}, errors.New("the workspace publishes nothing")
	}
	m.mu.Lock()
	c := m.cloneLocked(e.Clone)
	h, exists := c.heads[p.Head]
	unmoved := exists && p.From == "" && (slices.Equal(h.Chain, p.Chain) || slices.Equal(c.expand(h.Chain), p.Chain))
	m.mu.Unlock()
	if !exists {
		unmoved = p.From != "" || len(p.Chain) == 0
		h = Want{Clone: e.Clone, UID: e.UID, GID: e.GID, Text: e.Text}.headOf(p.Path, e.Ref)
		h.Chain = p.Chain
	}
	switch {
	case !unmoved:
		return h, errors.New("another workspace has moved its head meanwhile")
	case len(h.Chain) >= maxChain:
		m.flattenSoon(h.Clone, h.Key) // because no promotion would
		return h, errors.New("its layers have not been flattened yet")
	}
	h.MovedAt = m.Now()
	h.Used = h.MovedAt
	return h, nil
}

// expand returns a chain with each flattened layer replaced by the layers that it was made of.
func (c *clone) expand(chain []string) (list []string) {
	for _, id := range chain {
		l, _ := c.layers.Get(meta.WarmLayer, id)
		if len(l.Of) == 0 {
			l.Of = []string{id}
		}
		list = append(list, l.Of...)
	}
	return list
}
