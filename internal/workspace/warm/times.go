package warm

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/disk/upfile"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/overlay"
	"github.com/helmdeck/repos/internal/repo/checkout"
)

// A layer of times makes make, Cargo and Python see which files of a tree are not those that the layers of heads were
// built from. It has these files with another time, as stubs of those in the tree, and the index that fits.

// Why a workspace begins without the layers of a head.
const (
	tooDifferent = "it was built from another commit, which differs in too many files: it begins empty, and replaces the other"
	baseUnknown  = "it is not known from which files it was built: it begins empty, and replaces the other"
	fromFuture   = "it or a file in it has a time that is still to come, as after the clock was set back: it begins empty, and replaces the other"
)

// baseOf returns the base of a workspace that has the times of its tree.
func (m *Manager) baseOf(w Want) meta.Base {
	key := w.Built.ID + "@" + strconv.FormatInt(w.Built.CreatedAt.UnixNano(), 36)
	if !m.config.Metacopy { // a layer of times that was made with it can't be read
		key += " without metacopy"
	}
	return meta.Base{Tree: key}
}

// fit gives the paths a base that fits their layers, which the caller holds, and holds its layer of times. A path whose
// layers no base fits is left out.
func (m *Manager) fit(ctx context.Context, w Want, paths []meta.WarmPath) ([]meta.WarmPath, error) {
	base := m.baseOf(w)
	var tops []meta.Layer
	for i := range paths {
		p := &paths[i]
		if len(p.Chain) == 0 {
			continue
		}
		top, _ := m.config.Layers.Set(w.Clone).Get(meta.WarmLayer, p.Chain[0])
		switch now := m.config.Now(); {
		case top.Base.Tree == "":
			m.leave(ctx, w.Clone, p, baseUnknown)
		case top.BuiltAt.After(now.Add(time.Second)):
			m.leave(ctx, w.Clone, p, fromFuture)
		default:
			tops = append(tops, top)
		}
	}
	var err error
	if len(tops) > 0 {
		base, err = m.baseFor(ctx, w, base, tops)
	}
	why := ""
	switch {
	case errors.Is(err, checkout.ErrUnlike):
		why = tooDifferent
	case err != nil:
		m.Drop(w.Clone, paths)
		return nil, err
	}
	for i := range paths {
		if why != "" && len(paths[i].Chain) > 0 {
			m.leave(ctx, w.Clone, &paths[i], why)
		}
		paths[i].Base = base
	}
	return paths, nil
}

// leave makes a workspace begin without the layers of a head.
func (m *Manager) leave(ctx context.Context, clone string, p *meta.WarmPath, why string) {
	m.config.Log.WithContext(ctx).WithField("clone", clone).Infof("warm path %q: %s", p.Path, why)
	m.config.Layers.Set(clone).Drop(meta.WarmLayer, p.Chain...)
	p.Chain, p.Built, p.Replaces, p.LeftOut = nil, meta.Built{}, p.Chain, why
}

// baseFor returns a base of the workspace that fits the topmost layers of heads, and holds its layer of times, which it
// makes if there is none. The layers of tree have the times of base. checkout.ErrUnlike is found once, and remembered.
func (m *Manager) baseFor(ctx context.Context, w Want, base meta.Base, tops []meta.Layer) (meta.Base, error) {
	layers, id := m.config.Layers.Set(w.Clone), timesID(base, tops)
	candidates := []string{"", id}
	for _, top := range tops {
		candidates = append(candidates, top.Base.Times)
	}
	take := func() bool {
		for _, id := range candidates {
			base.Times = id
			times, known := layers.Get(meta.WarmLayer, id)
			fits := func(top meta.Layer) bool {
				return top.Base == base && !top.Edited || times.Base.Tree == base.Tree && slices.Contains(times.Fits, top.ID)
			}
			if slices.IndexFunc(tops, func(top meta.Layer) bool { return !fits(top) }) < 0 &&
				(id == "" || known && !layers.Missing(meta.WarmLayer, id) && layers.HoldKnown(times)) {
				return true
			}
		}
		return false
	}
	if take() {
		return base, nil
	}
	key := w.Clone + "/" + id
	unlock, err := m.dating.Lock(ctx, key)
	if err != nil {
		return base, err
	}
	defer unlock()
	if take() {
		return base, nil
	}
	base.Times = ""
	m.mu.Lock()
	unlike := m.unlike[key]
	m.mu.Unlock()
	if unlike {
		return base, checkout.ErrUnlike
	}
	l := meta.Layer{Kind: meta.WarmLayer, ID: id, Commit: w.Built.Commit, Base: base}
	for _, top := range tops {
		l.Fits = append(l.Fits, top.ID)
	}
	if err := m.makeTimes(ctx, w, l, tops); err != nil {
		if errors.Is(err, checkout.ErrUnlike) {
			m.noteUnlike(key)
		}
		return base, err
	}
	base.Times = id
	return base, nil
}

// noteUnlike remembers that no layer of times can be made for a key.
func (m *Manager) noteUnlike(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.unlike) >= maxSums {
		clear(m.unlike)
	}
	m.unlike[key] = true
}

// timesID returns the ID of the layer of times for a tree and the topmost layers of heads.
func timesID(base meta.Base, tops []meta.Layer) string {
	h := sha256.New()
	fmt.Fprintf(h, "%s\x00", base.Tree)
	for _, top := range tops {
		fmt.Fprintf(h, "%s\x00", top.ID)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// makeTimes makes a layer of times, and holds it.
func (m *Manager) makeTimes(ctx context.Context, w Want, l meta.Layer, tops []meta.Layer) (err error) {
	layers := m.config.Layers.Set(w.Clone)
	temp, err := layers.Temp(meta.WarmLayer)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, layers.Discard(temp))
		}
	}()
	if err := m.fillTimes(ctx, w, filepath.Join(temp, filesPart), tops); err != nil {
		return err
	}
	size, err := disk.Measure(ctx, temp)
	if err != nil {
		return err
	}
	l.Size = meta.Measured{Size: size, At: m.config.Now()}
	unlock, err := m.lock(ctx, w.Clone)
	if err != nil {
		return err
	}
	defer unlock()
	if _, err := layers.Publish(l, temp); err != nil {
		return err
	}
	layers.Hold(meta.WarmLayer, l.ID)
	return nil
}

// fillTimes makes the files of a layer of times.
func (m *Manager) fillTimes(ctx context.Context, w Want, dir string, tops []meta.Layer) error {
	o := owner{int(w.UID), int(w.GID)}
	if err := errors.Join(o.mkdir(dir), overlay.Mark(dir), o.mkdir(filepath.Join(dir, ".git"))); err != nil {
		return err
	}
	spec := checkout.Spec{Commit: w.Built.Commit, Dir: dir, UID: w.UID, GID: w.GID, Below: w.Tree}
	var bases []checkout.Base
	var built int64
	for _, top := range tops {
		from := m.config.Layers.Set(w.Clone).Lower(meta.WarmLayer, top.ID)[0]
		b := checkout.Base{Dir: filepath.Join(from, basePart), Built: top.BuiltAt.Unix()}
		bases = append(bases, b)
		built = max(built, b.Built)
	}
	stamps, err := checkout.Stamps(ctx, m.config.Git, spec, bases)
	if err != nil || len(stamps) == 0 {
		return err
	}
	var at time.Time
	current := false
	if slices.ContainsFunc(stamps, func(s checkout.Stamp) bool { return s.Mtime == 0 }) {
		if at, current, err = m.timeAfter(ctx, built); err != nil {
			return err
		}
	}
	tree, err := upfile.OpenLayers(w.Tree)
	if err != nil {
		return err
	}
	defer tree.Close()
	for _, s := range stamps {
		if s.Mtime == 0 {
			s.Mtime = at.UnixNano()
		}
		if err := m.stamp(ctx, o, tree, dir, s); err != nil {
			return fmt.Errorf("give %q another time: %w", s.Path, err)
		}
	}
	if err := o.indexDirs(w.Tree, dir); err != nil {
		return err
	}
	if err := checkout.Restamp(ctx, m.config.Git, spec, stamps); err != nil || !current {
		return err
	}
	return setIndexTimes(filepath.Join(dir, ".git"), at)
}

// clockTick is how far the time that the kernel gives a file may lag behind the clock.
const clockTick = 20 * time.Millisecond

// timeAfter returns a time that is not in the future, and in a later second than built, in seconds since 1970. If the last
// second is later, it is the end of that, because git does not see an edit in the second of a file's time. Otherwise it is
// in the current second, and current is set. timeAfter waits for that to begin.
func (m *Manager) timeAfter(ctx context.Context, built int64) (at time.Time, current bool, err error) {
	for {
		now := m.config.Now().Add(-clockTick)
		switch {
		case now.Unix()-1 > built:
			return time.Unix(now.Unix(), -1), false, nil
		case now.Unix() > built:
			return now, true, nil
		}
		select {
		case <-time.After(time.Until(time.Unix(built+1, 0).Add(clockTick))):
		case <-ctx.Done():
			return at, false, context.Cause(ctx)
		}
	}
}

// setIndexTimes gives the indexes in a layer's .git the time of files in the current second: git compares the
// contents of a file whose time is not before that of the index, and otherwise trusts the seconds.
func setIndexTimes(git string, at time.Time) error {
	return eachIndex(git, func(rel string) error { return os.Chtimes(filepath.Join(git, rel), at, at) })
}

// owner makes directories for a uid and gid.
type owner struct{ uid, gid int }

func (o owner) mkdir(dir string) error {
	return errors.Join(os.Mkdir(dir, 0o755), os.Chmod(dir, 0o755), os.Lchown(dir, o.uid, o.gid))
}

// mkdirs makes the missing directories of the relative path rel below top.
func (o owner) mkdirs(top, rel string) error {
	for name := range strings.SplitSeq(rel, "/") {
		top = filepath.Join(top, name)
		if _, err := os.Lstat(top); err == nil {
			continue
		}
		if err := o.mkdir(top); err != nil {
			return err
		}
	}
	return nil
}

// indexDirs makes the directories in dir in which the layers of a tree have indexes.
func (o owner) indexDirs(tree []string, dir string) error {
	for _, layer := range tree {
		err := eachIndex(filepath.Join(layer, ".git"), func(rel string) error {
			return o.mkdirs(dir, path.Join(".git", path.Dir(rel)))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// stamp makes the file of a stamp in dir, as a stub of that in the layers of the tree, or as a copy of it.
func (m *Manager) stamp(ctx context.Context, o owner, tree upfile.Layers, dir string, s checkout.Stamp) error {
	rel := string(s.Path)
	if err := o.mkdirs(dir, path.Dir(rel)); err != nil {
		return err
	}
	in, st, err := tree.ParentOf(rel)
	if err != nil {
		return err
	}
	defer in.Close()
	from, to := upfile.Below(int(in.Fd()), path.Base(rel)), filepath.Join(dir, rel)
	switch {
	case upfile.Kind(&st) == unix.S_IFREG && m.config.Metacopy:
		f, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return err
		}
		err = errors.Join(f.Chown(int(st.Uid), int(st.Gid)), unix.Fchmod(int(f.Fd()), st.Mode&0o7777), overlay.TakeDataBelow(f, st.Size), f.Close())
		if err != nil {
			return err
		}
	default:
		c := &copier{Copier: upfile.NewCopier(ctx, st.Size)}
		if err := c.copyOne(from, to, &st); err != nil {
			return err
		}
	}
	at := unix.NsecToTimespec(s.Mtime)
	return unix.UtimesNanoAt(unix.AT_FDCWD, to, []unix.Timespec{at, at}, unix.AT_SYMLINK_NOFOLLOW)
}
