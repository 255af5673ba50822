package clone

import (
	"context"
	"fmt"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/git"
)

// WithRoom calls f, and if the disk is full, once more after room was made for need, as
// far as that is known, on behalf of the clone's subject. f leaves nothing half behind.
// When there is still no room the error says so, with what Config.MakeRoom has to say.
func (c *Clone) WithRoom(ctx context.Context, need disk.Size, f func() error) error {
	m, subject := c.m, string(c.subject)
	err := f()
	if m.MakeRoom == nil || !git.NoSpace(err) {
		return err
	}
	m.Log.WithError(err).Warn("the disk is full: room is made")
	if roomErr := m.MakeRoom(ctx, subject, need); roomErr != nil {
		return fmt.Errorf("%w; %w", err, roomErr)
	}
	if err = f(); !git.NoSpace(err) {
		return err
	}
	// What was free has gone to others meanwhile: who has it is for MakeRoom to say.
	if roomErr := m.MakeRoom(ctx, subject, need); roomErr != nil {
		return fmt.Errorf("%w; %w", err, roomErr)
	}
	return err
}
