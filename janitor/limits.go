package janitor

import (
	"math"
	"time"

	"github.com/helmdeck/repos/internal/disk"
)

// Limits are set by the operator. Zero means no limit, unless a field says otherwise.
type Limits struct {
	// TTL is how long an idle clone is kept.
	TTL time.Duration
	// CheckpointTTL is how long a checkpoint is kept; zero: not at all.
	CheckpointTTL time.Duration
	// SubjectMaxSize bounds the clones of each subject, in bytes, except those that
	// Inventory.SubjectMaxSize has.
	SubjectMaxSize int64
	// MaxSize bounds all clones, Inventory.Own and Inventory.Trash together, in bytes. While
	// the trash exceeds it, the trash hurries.
	MaxSize int64
	// MinFree is the share of the filesystem's bytes and inodes, 0 to 1, to keep free,
	// whoever uses the rest.
	MinFree float64
	// Grace is how long a clone without a first mount is protected.
	Grace time.Duration
	// Room is how much must be free now for somebody who needs it.
	Room disk.Size
	// guessedFor is set to the subject if Room is a guess and the disk is not full.
	guessedFor *string
	// lateDone is set if this sweep must not evict late parts: it has done so already, or
	// is not a scheduled one, because there may be thousands of these.
	lateDone bool
}

const (
	// Once a limit is exceeded, eviction continues to a mark 1/band below it, so that not
	// every fetch on a full disk leads to an eviction. For MinFree the mark is as far
	// above.
	band = 10
	// A clone that exceeds a limit on its own is exempt for largeGrace after its last use,
	// because the second of two successive mounts should not clone again. It breaks the limit
	// meanwhile, so that is short.
	largeGrace = time.Minute
	// A part is late if it has been due for lateAfter, longer than any interval between
	// sweeps: the plugin was off, a setting was changed, or the clock jumped.
	lateAfter = 24 * time.Hour
	// One sweep evicts 1/lateShare of the total, at least one, of late parts. So after
	// the clock has jumped by years, there are hours in which new uses protect parts.
	lateShare = 20
	// unlimited is lower than any excess.
	unlimited = math.MinInt64 / 4
)

// excess is by how much a limit is exceeded; if negative, the room left.
type excess struct {
	disk.Size
	band disk.Size
}

// over reports whether the limit is exceeded.
func (e excess) over() bool { return e.Bytes > 0 || e.Inodes > 0 }

// above reports whether the mark below the limit is exceeded.
func (e excess) above() bool { return e.Bytes > -e.band.Bytes || e.Inodes > -e.band.Inodes }

// less returns e after freeing s.
func (e excess) less(s disk.Size) excess { return excess{e.Sub(s), e.band} }

// missing returns the positive part.
func (e excess) missing() disk.Size {
	return disk.Size{Bytes: max(e.Bytes, 0), Inodes: max(e.Inodes, 0)}
}

// ofBytes compares used bytes with a limit.
func ofBytes(used, limit int64) excess {
	return excess{disk.Size{Bytes: used - limit, Inodes: unlimited}, disk.Size{Bytes: limit / band}}
}

// ofFree compares free space with the share of a filesystem that must be free.
func ofFree(s disk.Space, free disk.Size, share float64) excess {
	e := excess{Size: disk.Size{Bytes: unlimited, Inodes: unlimited}}
	one := func(total, free int64) (over, band int64) {
		want := part(total, share)
		return want - free, part(total, min(share+share/10, 1)) - want
	}
	if s.Total.Bytes > 0 {
		e.Bytes, e.band.Bytes = one(s.Total.Bytes, free.Bytes)
	}
	if s.Total.Inodes > 0 {
		e.Inodes, e.band.Inodes = one(s.Total.Inodes, free.Inodes)
	}
	return e
}

func part(total int64, share float64) int64 { return int64(float64(total) * share) }

// ofRoom compares free space with what somebody needs.
func ofRoom(s disk.Space, free, need disk.Size) excess {
	e := excess{Size: need.Sub(free)}
	if s.Total.Inodes == 0 {
		e.Inodes = unlimited
	}
	return e
}

// Short reports whether less than MinFree is free.
func (l Limits) Short(s disk.Space) bool { return l.MinFree > 0 && ofFree(s, s.Free, l.MinFree).over() }
