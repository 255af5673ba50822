package replica

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/disk"
)

// job is an entry that is no directory.
type job struct {
	dir     *dir
	entry   *entry
	old     entry    // what the copy has
	id      identity // of the inode that the walk found
	current bool     // old is a copy of it
}

// worker copies files.
type worker struct {
	*pass
	links map[identity]link
}

// link is the first name of the copy of an inode that has several.
type link struct {
	table *table
	entry entry
	ino   uint64 // of the copy
}

// run does jobs until there are no more. After a failure it only ends them.
func (w *worker) run(jobs, linked <-chan job) {
	for jobs != nil || linked != nil {
		var j job
		var ok bool
		do := w.copy
		select {
		case j, ok = <-jobs:
			if !ok {
				jobs = nil
			}
		case j, ok = <-linked:
			if !ok {
				linked = nil
			}
			do = w.copyLinked
		}
		if !ok {
			continue
		}
		if w.ctx.Err() == nil {
			if err := do(j); err != nil {
				w.fail(fmt.Errorf("copy %q: %w", j.dir.below(j.entry.name), err))
			}
		}
		w.release(j.dir)
	}
}

// copyLinked makes the name one of the copy that its inode has already, or the first one.
func (w *worker) copyLinked(j job) error {
	first, ok := w.links[j.id]
	switch {
	case ok:
		same, err := w.isCopy(j, first.ino)
		if err != nil {
			return err
		}
		if !same {
			if err := w.remove(j.dir, &j.old); err != nil {
				return err
			}
			j.old = entry{name: j.old.name}
			if err := w.link(first, j); errors.Is(err, unix.EMLINK) {
				break // there may be more names that this, but in the source they are as many
			} else if err != nil {
				return err
			}
		}
		*j.entry = first.entry
		j.entry.name, j.entry.held = j.old.name, 0
		if same {
			j.entry.held = j.old.held
		}
		return nil
	case j.current:
		*j.entry = j.old
		return w.first(j)
	}
	if err := w.copy(j); err != nil || j.entry.identity != j.id {
		return err
	}
	return w.first(j)
}

// isCopy reports whether the copy's name is one of the inode.
func (w *worker) isCopy(j job, ino uint64) (bool, error) {
	if j.old.kind == 0 {
		return false, nil
	}
	st, err := statName(j.dir.out, j.old.name)
	if errors.Is(err, unix.ENOENT) {
		return false, nil
	}
	return err == nil && st.Ino == ino, err
}

// first remembers that the entry is the first name of the copy of its inode.
func (w *worker) first(j job) error {
	st, err := statName(j.dir.out, j.entry.name)
	if err != nil {
		return err
	}
	w.links[j.id] = link{j.dir.table, *j.entry, st.Ino}
	return nil
}

// link makes a link to the first copy.
func (w *worker) link(first link, j job) error {
	j.dir.stale.Store(true)
	from := j.dir.out
	if first.table != j.dir.table {
		fd, err := w.openCopy(first.table.path())
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		from = fd
	}
	if err := unix.Linkat(from, first.entry.name, j.dir.out, j.entry.name, 0); err != nil {
		return err
	}
	w.result.changed.Add(1)
	return nil
}

// openCopy opens a directory of the copy, in steps that are not too long for the kernel.
func (w *worker) openCopy(path []string) (fd int, err error) {
	const most = 15 // names of 255 bytes in 4,096
	if fd, err = disk.OpenAt(int(w.dst.Fd()), ".", unix.O_PATH|unix.O_DIRECTORY); err != nil {
		return -1, err
	}
	for names := range slices.Chunk(path, most) {
		next, err := disk.OpenAt(fd, strings.Join(names, "/"), unix.O_PATH|unix.O_DIRECTORY)
		unix.Close(fd)
		if err != nil {
			return -1, err
		}
		fd = next
	}
	return fd, nil
}
