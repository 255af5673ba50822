package clone

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/meta"
)

// NoSpace reports whether err says that the disk, or a quota, is full.
func NoSpace(err error) bool {
	return git.KindOf(err) == git.KindNoSpace || errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)
}

// WithRoom calls f, and if the disk is full, once more after room was made for need, as
// far as that is known, on behalf of the clone's subject. f leaves nothing half behind.
// When there is still no room the error says so, with what Config.MakeRoom has to say.
func (c *Clone) WithRoom(ctx context.Context, need disk.Size, f func() error) error {
	m, subject := c.m, string(c.subject)
	err := f()
	if m.MakeRoom == nil || !NoSpace(err) {
		return err
	}
	m.Log.WithError(err).Warn("the disk is full: room is made")
	if roomErr := m.MakeRoom(ctx, subject, need); roomErr != nil {
		return fmt.Errorf("%w; %w", err, roomErr)
	}
	if err = f(); !NoSpace(err) {
		return err
	}
	// What was free has gone to others meanwhile: who has it is for MakeRoom to say.
	if roomErr := m.MakeRoom(ctx, subject, need); roomErr != nil {
		return fmt.Errorf("%w; %w", err, roomErr)
	}
	return err
}

// sizeOfNext guesses what the next tree will take: what the largest one took.
// Zero is not known.
func (c *Clone) sizeOfNext() disk.Size {
	var size disk.Size
	for _, l := range c.layers.List(meta.Tree) {
		if l.Size.Bytes > size.Bytes {
			size = l.Size.Size
		}
	}
	for _, s := range c.Remote.Stores() { // compressed: at least that
		if size.Bytes < s.Size.Bytes {
			size.Bytes = s.Size.Bytes
		}
	}
	return size
}
