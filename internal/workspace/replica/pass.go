package replica

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/disk/upfile"
)

const (
	// workers copy files. Two take half the time of one, four no less than two.
	workers = 2
	// batch is how many names of a directory are read at once.
	batch = 256
	// longName is for how many bytes a name counts once more.
	longName = 64
)

// pass brings the copy up to date once. One goroutine walks both trees and compares, the workers copy.
type pass struct {
	*Replica
	ctx  context.Context
	fail context.CancelCauseFunc
	live bool // others may write
	dev  [2]uint32
	// jobs are for any worker. Inodes with several names each have their worker, which has their table.
	jobs    chan job
	linked  [workers]chan job
	entries int64
	result  counts
}

// counts are those of Result. The first line is the walk's own.
type counts struct {
	dirs, skipped int64

	files, changed, copied, cloned, torn, vanished, foreign, refused atomic.Int64
}

// dir is a directory of both trees. It stays open until all that is in it is done, and gets its metadata then.
type dir struct {
	up       *dir
	path     string
	level    int
	src, dst *os.File
	in, out  int // their descriptors
	table    *table
	pending  atomic.Int64 // entries in work, and one for the walk
	stale    atomic.Bool  // the metadata of the copy is wrong
}

func (r *Replica) pass(parent context.Context, live bool) (Result, error) {
	ctx, fail := context.WithCancelCause(parent)
	defer fail(nil)
	p := &pass{Replica: r, ctx: ctx, fail: fail, live: live, jobs: make(chan job, 64)}
	on := func(f func()) { f() }
	if live { // nobody is paused meanwhile, and others of this process want to mount
		on = func(f func()) { disk.Nice(disk.Lowest, f) }
	}
	var group sync.WaitGroup
	for i := range p.linked {
		p.linked[i] = make(chan job, 64)
		w := &worker{pass: p, links: make(map[identity]link)}
		group.Go(func() { on(func() { w.run(p.jobs, p.linked[i]) }) })
	}
	on(func() {
		if err := p.run(); err != nil {
			fail(err)
		}
	})
	close(p.jobs)
	for _, c := range p.linked {
		close(c)
	}
	group.Wait()
	c := &p.result
	return Result{
		Files: c.files.Load(), Dirs: c.dirs, Changed: c.changed.Load(), Copied: c.copied.Load(), Cloned: c.cloned.Load(), Torn: c.torn.Load(),
		Skipped: c.skipped, Vanished: c.vanished.Load(), Foreign: c.foreign.Load(), Refused: c.refused.Load(),
	}, context.Cause(ctx)
}

// run walks from the top.
func (p *pass) run() error {
	src, err := openDir(int(p.src.Fd()), ".")
	if err != nil {
		return fmt.Errorf("open the source: %w", err)
	}
	dst, err := openDir(int(p.dst.Fd()), ".")
	if err != nil {
		src.Close()
		return fmt.Errorf("open the destination: %w", err)
	}
	return p.walk(&dir{src: src, dst: dst}, &p.top, p.top)
}

// walk makes the directory d a copy, whose entry becomes e and was old.
func (p *pass) walk(d *dir, e *entry, old entry) error {
	d.in, d.out = int(d.src.Fd()), int(d.dst.Fd())
	d.pending.Store(1)
	defer p.release(d)
	now := time.Now()
	st, err := statFile(d.in)
	if err != nil {
		return fmt.Errorf("stat %q: %w", d.path, err)
	}
	if d.up == nil {
		p.dev = [2]uint32{st.Dev_major, st.Dev_minor}
	}
	d.stale.Store(!old.current(&st))
	e.record(&st, now)
	names, err := p.list(d)
	if err != nil {
		return err
	}
	d.table = &table{name: e.name, entries: make([]entry, len(names))}
	if d.up != nil {
		d.table.up = d.up.table
	}
	e.table = d.table
	var before []entry
	if old.table != nil {
		before = old.table.entries
	}
	for i, name := range names {
		for len(before) > 0 && before[0].name < name {
			if err := p.gone(d, &before[0]); err != nil {
				return err
			}
			before = before[1:]
		}
		old := entry{name: name}
		if len(before) > 0 && before[0].name == name {
			old, before = before[0], before[1:]
		}
		e := &d.table.entries[i]
		e.name = name
		if err := p.visit(d, e, old); err != nil {
			return err
		}
	}
	for i := range before {
		if err := p.gone(d, &before[i]); err != nil {
			return err
		}
	}
	return nil
}

// list returns the names in a directory, in order, without those to skip.
func (p *pass) list(d *dir) (names []string, err error) {
	for {
		if err := p.ctx.Err(); err != nil {
			return nil, err
		}
		part, err := d.src.Readdirnames(batch)
		for _, name := range part {
			p.entries += 1 + int64(len(name))/longName
		}
		if p.entries > p.options.Entries {
			return nil, &LimitError{Entries, p.options.Entries}
		}
		if p.options.Grow != nil {
			if err := p.options.Grow(p.ctx, p.entries); err != nil {
				return nil, err
			}
		}
		for _, name := range part {
			if p.options.Skip != nil && p.options.Skip(d.below(name)) {
				p.result.skipped++
			} else {
				names = append(names, name)
			}
		}
		if err == io.EOF || isGone(err) { // the directory itself may be removed
			// A name that is removed and made meanwhile may come twice.
			slices.Sort(names)
			return slices.Compact(names), nil
		}
		if err != nil {
			return nil, fmt.Errorf("read directory %q: %w", d.path, err)
		}
	}
}

// visit makes the name of e in the directory d a copy. old is what the copy has.
func (p *pass) visit(d *dir, e *entry, old entry) error {
	if err := p.ctx.Err(); err != nil {
		return err
	}
	st, err := statName(d.in, e.name)
	if isGone(err) {
		p.result.vanished.Add(1)
		return p.gone(d, &old)
	}
	if err != nil {
		return fmt.Errorf("stat %q: %w", d.below(e.name), err)
	}
	if [2]uint32{st.Dev_major, st.Dev_minor} != p.dev {
		p.leftOut(unix.EXDEV)
		return p.gone(d, &old)
	}
	kind := kindOf(&st)
	if old.kind != kind && (old.kind == unix.S_IFDIR || kind == unix.S_IFDIR) {
		if err := p.remove(d, &old); err != nil {
			return err
		}
		old = entry{name: old.name}
	}
	if kind == unix.S_IFDIR {
		return p.enter(d, e, old)
	}
	p.result.files.Add(1)
	j := job{dir: d, entry: e, old: old, id: identityOf(&st), current: old.current(&st)}
	switch {
	case st.Nlink > 1 && kind != upfile.Whiteout:
		d.pending.Add(1)
		p.linked[st.Ino%workers] <- j
	case j.current:
		*e = old
	default:
		d.pending.Add(1)
		p.jobs <- j
	}
	return nil
}

// enter makes the directory e in d a copy.
func (p *pass) enter(d *dir, e *entry, old entry) error {
	if d.level >= p.options.Depth {
		return &LimitError{Levels, int64(p.options.Depth)}
	}
	path := d.below(e.name)
	src, err := openDir(d.in, e.name)
	if isGone(err) || errors.Is(err, unix.EXDEV) {
		p.leftOut(err)
		return p.gone(d, &old)
	}
	if err != nil {
		return fmt.Errorf("open %q: %w", path, err)
	}
	if old.kind == 0 {
		d.stale.Store(true)
		p.result.changed.Add(1)
		if err := p.write(inodeCost); err != nil {
			src.Close()
			return err
		}
		if err := unix.Mkdirat(d.out, e.name, 0o700); err != nil {
			src.Close()
			return fmt.Errorf("make directory %q: %w", path, err)
		}
	}
	dst, err := openDir(d.out, e.name)
	if err != nil {
		src.Close()
		return fmt.Errorf("open the copy of %q: %w", path, err)
	}
	p.result.dirs++
	d.pending.Add(1)
	return p.walk(&dir{up: d, path: path, level: d.level + 1, src: src, dst: dst}, e, old)
}

// leftOut counts a name that can't be opened.
func (p *pass) leftOut(err error) {
	if errors.Is(err, unix.EXDEV) {
		p.result.foreign.Add(1)
	} else {
		p.result.vanished.Add(1)
	}
}

// release ends one use of d. The last one completes and closes it, and then ends its use of the directory above.
func (p *pass) release(d *dir) {
	for ; d != nil && d.pending.Add(-1) == 0; d = d.up {
		if p.ctx.Err() == nil && d.stale.Load() {
			if err := p.complete(d); err != nil {
				p.fail(fmt.Errorf("copy the owner, attributes, mode and times of %q: %w", d.path, err))
			}
		}
		d.src.Close()
		d.dst.Close()
	}
}

// complete copies the metadata of a directory.
func (p *pass) complete(d *dir) error {
	st, err := statFile(d.in)
	if err != nil {
		return err
	}
	m := meta{from: ofFile(d.in), to: upfile.Below(d.out, "."), st: &st, untied: p.options.Untied && d.up == nil}
	if err := m.before(); err != nil {
		return err
	}
	return m.after()
}

// below returns the path of a name in the directory.
func (d *dir) below(name string) string {
	if d.up == nil {
		return name
	}
	return d.path + "/" + name
}

// openDir opens a directory in another one.
func openDir(dir int, name string) (*os.File, error) {
	fd, err := disk.OpenAt(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOATIME)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

// isGone reports whether a name was removed or replaced while it was looked at.
func isGone(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ESTALE)
}

const statMask = unix.STATX_BASIC_STATS | unix.STATX_BTIME

// statName describes a name in a directory, without following it.
func statName(dir int, name string) (st unix.Statx_t, err error) {
	err = unix.Statx(dir, name, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, statMask, &st)
	return st, err
}

// statFile describes an open file.
func statFile(fd int) (st unix.Statx_t, err error) {
	err = unix.Statx(fd, "", unix.AT_EMPTY_PATH, statMask, &st)
	return st, err
}
