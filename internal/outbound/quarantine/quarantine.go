package quarantine

import (
	"context"
	"fmt"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/disk/durable"
	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/work"
)

// Quarantine is a directory for commits that leave workspaces. It is safe for concurrent use.
type Quarantine struct {
	Git *git.Git
	Dir string
	// MaxSize limits what is copied of one workspace, and what is sent, in bytes.
	MaxSize int64
	// Room calls f. If the disk is full, it makes room in the name of a subject, and calls f again.
	// Nil makes no room.
	Room Room

	large *work.Scheduler // of those that keep long lists
}

// Room is such a function.
type Room func(ctx context.Context, subject string, f func() error) error

// Open returns the quarantine in dir, which it makes if it is missing, and removes what an earlier
// process left there. No git may run there.
func Open(g *git.Git, dir string, maxSize int64, room Room) (*Quarantine, error) {
	// The fetching uid enters the directories within.
	if err := durable.MkdirAll(dir, 0o711); err != nil {
		return nil, fmt.Errorf("open quarantine: %w", err)
	}
	if err := disk.RemoveContents(dir); err != nil {
		return nil, fmt.Errorf("empty the quarantine: %w", err)
	}
	return &Quarantine{g, dir, maxSize, room, work.NewScheduler([3]work.Limits{work.CPU: lists})}, nil
}

// WithRoom calls f, which writes into the quarantine, with Room in the name of the subject of the
// context's job. A failed f must not leave anything behind.
func (q *Quarantine) WithRoom(ctx context.Context, f func() error) error {
	if q.Room == nil {
		return f()
	}
	var subject string
	if job := work.JobOf(ctx); job != nil {
		subject = job.Subject
	}
	return q.Room(ctx, subject, f)
}
