package git

import (
	"context"
	"time"

	"github.com/helmdeck/repos/internal/sandbox"
)

const (
	// questionCPU is for what a waiting Mount's answer is made of. A question takes
	// milliseconds, and askTimeout ends it after as many seconds.
	questionCPU = 20 * time.Second
	// defaultFetchCPU is for index-pack: one processor resolves the ten million
	// objects of Linux in some ten minutes.
	defaultFetchCPU = 30 * time.Minute
	// defaultMemory is three times what index-pack takes for the whole history of
	// Linux. A tree of ten billion files, which is a download of one kilobyte, takes
	// any amount.
	defaultMemory = 4 << 30
	// The first heavy command of a subject is nicer than the plugin by heavyNice, which
	// leaves three quarters of a busy processor to a question. Each one more that the
	// subject has at that time is nicer by niceStep, a third of the processor of the one
	// before, so that many commands of one subject do not outweigh the one of another.
	heavyNice = 5
	niceStep  = 5
	nicest    = 19
)

// niceOf is how much nicer a heavy command is that holds a slot of this share.
func niceOf(share int) int { return min(heavyNice+niceStep*(share-1), nicest) }

// limitsOf returns the limits of a command whose context has its slot.
func (g *Git) limitsOf(ctx context.Context, c Command) sandbox.Limits {
	l := sandbox.Limits{CPU: g.workCPU, Memory: g.memory, Nice: niceOf(shareOf(ctx))}
	switch {
	case c.question:
		l.CPU, l.Nice = questionCPU, 0
	case c.remote:
		l.CPU = g.fetchCPU
	}
	return l
}
