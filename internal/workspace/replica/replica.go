package replica

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/disk"
)

// Limits bound a copy. None may be 0.
type Limits struct {
	// Bytes is how much data the copy may hold besides clones, which share theirs with the source.
	Bytes int64
	// Entries is how many names the source may have. A long name counts once more for each 64 bytes that it has, because
	// the Replica has all names in memory.
	Entries int64
	// Depth is how many levels of directories the source may have below its top.
	Depth int
}

// A Kind of limit is what it counts.
type Kind string

// Kinds of limits.
const (
	Bytes   Kind = "bytes of data that must be copied"
	Entries Kind = "files and directories"
	Levels  Kind = "levels of directories"
)

// LimitError means that the source exceeds one of Limits.
type LimitError struct {
	Kind Kind
	Most int64
}

func (e *LimitError) Error() string { return fmt.Sprintf("at most %d %s are allowed", e.Most, e.Kind) }

// Options say what is copied.
type Options struct {
	Limits
	// Grow, which may be nil, is called in Start and Finish before the copy gets more entries, with their sum as Limits
	// count them. It may wait. Its error ends the copy.
	Grow func(ctx context.Context, entries int64) error
	// Skip, which may be nil, reports whether to leave out the path, such as "a/b", with all that is in it. It is called
	// from one goroutine.
	Skip func(path string) bool
	// Untied leaves out the attributes of the top that tie it to one overlay: the filesystem ID, and the lower directory on
	// which index=on has seen it. It is for a copy that other overlays than the source's use.
	Untied bool
	// Room, which may be nil, is called now and then while something is written. Its error ends the copy, which the
	// disk of others may need. It is called from several goroutines.
	Room func() error
	// Mounted, which may be nil, reports whether anything that writes may be mounted on an upper, which Merge has as a
	// number. It is called twice for each file.
	Mounted func(upper int) bool
}

// Result says what one pass did.
type Result struct {
	// Files and Dirs are what the copy has, without its top.
	Files, Dirs int64
	// Changed counts the names that were made, replaced or removed; a directory that was removed counts as one.
	Changed int64
	// Copied and Cloned are bytes of data that were written, and that are now shared with the source. Holes do not count.
	Copied, Cloned int64
	// Made is what Merge has written, besides clones, and Whole what all that is in the layer takes, links and clones
	// too.
	Made, Whole disk.Size
	// Torn counts the files that were changed while they were copied, each time: they may be of no one moment.
	Torn int64
	// Skipped, Vanished, Foreign and Refused are names that were left out: because of Options.Skip, because they were removed
	// or replaced while they were read, because they are on another filesystem or mount, and devices that this process
	// may not make.
	Skipped, Vanished, Foreign, Refused int64
}

// Replica is a copy that has been started. Its methods may not be called concurrently.
type Replica struct {
	src, dst *os.File
	options  Options
	top      entry
	held     atomic.Int64 // bytes that the copy holds
	written  atomic.Int64 // bytes since Room was called
	noClone  atomic.Bool  // the filesystem can't
	// afterData is called when the data of a file was copied. Tests change the file then.
	afterData func(path string)
}

// Start copies the directory src, which may change meanwhile, into the empty directory dst of the same filesystem, with
// its own owner, mode, attributes and times. It syncs the filesystem first. The caller keeps both open until the last use
// of the Replica. After an error, which may be a *LimitError or the context's, dst has an incomplete copy.
func Start(ctx context.Context, src, dst *os.File, o Options) (*Replica, Result, error) {
	r := &Replica{src: src, dst: dst, options: o, afterData: func(string) {}}
	if err := r.prepare(); err != nil {
		return nil, Result{}, err
	}
	result, err := r.pass(ctx, true)
	if err != nil {
		return nil, result, err
	}
	return r, result, nil
}

// Finish makes the copy equal to the source, which nobody may change meanwhile. It syncs nothing. It may be called
// again, unless it has returned an error. Its errors are those of Start.
func (r *Replica) Finish(ctx context.Context) (Result, error) { return r.pass(ctx, false) }

const (
	// roomEvery is how many bytes may be written between two calls of Options.Room.
	roomEvery = 4 << 20
	// inodeCost is as much as an inode takes besides its data, with its name and attributes, and more than most take.
	inodeCost = 16 << 10
)

// write counts bytes that are going to be written, and calls Options.Room if they are many.
func (r *Replica) write(n int64) error {
	if r.options.Room == nil || r.written.Add(n) < roomEvery {
		return nil
	}
	r.written.Store(0)
	return r.options.Room()
}

// prepare syncs the source and checks that the destination is empty.
func (r *Replica) prepare() error {
	dst, err := openDir(int(r.dst.Fd()), ".")
	if err != nil {
		return fmt.Errorf("open the destination: %w", err)
	}
	defer dst.Close()
	if names, _ := dst.Readdirnames(1); len(names) > 0 {
		return fmt.Errorf("the destination has %q: %w", names[0], unix.ENOTEMPTY)
	}
	src, err := openDir(int(r.src.Fd()), ".")
	if err != nil {
		return fmt.Errorf("open the source: %w", err)
	}
	defer src.Close()
	if err := unix.Syncfs(int(src.Fd())); err != nil {
		return fmt.Errorf("sync the filesystem of the source: %w", err)
	}
	return nil
}
