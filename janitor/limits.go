package janitor

import (
	"math"
	"time"

	"github.com/helmdeck/repos/internal/disk"
)

// Limits are what an operator allows. Zero means no limit, except where said.
type Limits struct {
	// TTL is how long an idle clone stays.
	TTL time.Duration
	// DiscardTTL is how long a discard stays; zero: not at all.
	DiscardTTL time.Duration
	// SubjectMaxSize bounds the clones of each subject, in bytes.
	SubjectMaxSize int64
	// MaxSize bounds all clones together, in bytes.
	MaxSize int64
	// MinFree is the share of the filesystem, 0 to 1, that stays free, bytes and
	// inodes alike, whoever has taken the rest.
	MinFree float64
	// Grace is how long a clone is protected that no workspace was made of yet, and
	// after its last use one that exceeds a limit on its own.
	Grace time.Duration
	// Room is how much somebody needs to be free now.
	Room disk.Size
	// guessedFor is the subject that Room is guessed for, on a disk that is not full.
	guessedFor *string
	// lateDone is set when what is late has had its share in this sweep, or when the
	// sweep is not one of those on schedule: these may come by the thousand.
	lateDone bool
}

const (
	// band is how far below a limit eviction goes once the limit is passed, as a
	// share of it: a tenth, so that not every fetch on a full disk is followed by an
	// eviction. (MinFree goes as far above.)
	band = 10
	// lateAfter is how long after its time something is due that was not noticed: no
	// sweep is so rare. The plugin was off, a setting has changed, or the clock has
	// jumped.
	lateAfter = 24 * time.Hour
	// lateShare is how much of what is late goes in one sweep: a twentieth, at least
	// one. After a jump of the clock by years, that leaves hours in which what is
	// used says so.
	lateShare = 20
	// unlimited is less than any excess.
	unlimited = math.MinInt64 / 4
)

// excess is by how much a limit is exceeded; negative is what is left.
type excess struct {
	disk.Size
	band disk.Size
}

// over reports whether the limit is exceeded.
func (e excess) over() bool { return e.Bytes > 0 || e.Inodes > 0 }

// above reports whether the mark below the limit is exceeded.
func (e excess) above() bool { return e.Bytes > -e.band.Bytes || e.Inodes > -e.band.Inodes }

// less returns e after s was freed.
func (e excess) less(s disk.Size) excess { return excess{e.Sub(s), e.band} }

// missing is the positive part.
func (e excess) missing() disk.Size {
	return disk.Size{Bytes: max(e.Bytes, 0), Inodes: max(e.Inodes, 0)}
}

// ofBytes compares what is used with a limit in bytes.
func ofBytes(used, limit int64) excess {
	return excess{disk.Size{Bytes: used - limit, Inodes: unlimited}, disk.Size{Bytes: limit / band}}
}

// ofFree compares what is free with the share of a filesystem that has to be.
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

// ofRoom compares what is free with what somebody needs.
func ofRoom(s disk.Space, free, need disk.Size) excess {
	e := excess{Size: need.Sub(free)}
	if s.Total.Inodes == 0 {
		e.Inodes = unlimited
	}
	return e
}

// Short reports whether less of a filesystem is free than has to be.
func (l Limits) Short(s disk.Space) bool { return l.MinFree > 0 && ofFree(s, s.Free, l.MinFree).over() }
