package clone

import (
	"context"
	"time"

	"github.com/helmdeck/repos/internal/meta"
)

// Ask asks the remote whether it has s.Ref. It is nil if it does, or if it does not answer and the known commit may be
// used. The error is a *giterror.Error whose Kind is Definite if it does not. The answer serves later Prepares as
// s.Since says.
func (c *Clone) Ask(ctx context.Context, s Spec) error { return c.remote.Ask(ctx, s.Source) }

// Asked returns the number of questions to the remote that were begun until now, for Since.
func (c *Clone) Asked() int64 { return c.remote.Asked() }

// Answered returns when the remote last answered a question, from memory; the zero time if it has not since the start.
func (c *Clone) Answered() time.Time { return c.remote.Answered() }

// Resolution returns the last known resolution of s.Ref, from memory.
func (c *Clone) Resolution(s Spec) (meta.Resolution, bool) { return c.remote.Resolution(s.Source) }

// RetainRef counts a volume with a Spec: the resolution of its ref is kept until ReleaseRef was called as often.
func (c *Clone) RetainRef(s Spec) { c.remote.RetainRef(s.Source) }

// ReleaseRef undoes one RetainRef.
func (c *Clone) ReleaseRef(s Spec) { c.remote.ReleaseRef(s.Source) }

// Ahead returns how many commits the history of commit has that the history of another commit, of, lacks, as far as
// they were fetched; all if of is empty.
func (c *Clone) Ahead(ctx context.Context, s Spec, commit, of string) (int, error) {
	return c.remote.Ahead(ctx, s.Source, commit, of)
}
