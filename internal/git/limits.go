package git

import (
	"context"
	"time"

	"github.com/helmdeck/repos/internal/sandbox"
)

const (
	// questionCPU is the limit of questions, which a Mount waits for. They take
	// milliseconds.
	questionCPU = 20 * time.Second
	// defaultFetchCPU is enough for index-pack: one processor resolves the ten million
	// objects of Linux in some ten minutes.
	defaultFetchCPU = 30 * time.Minute
	// defaultMemory is three times what index-pack needs for the whole history of Linux.
	// A tree of ten billion files, a download of one kilobyte, takes any amount.
	defaultMemory = 4 << 30
	// The first heavy command of a subject is nicer than the plugin by heavyNice, which
	// leaves three quarters of a busy processor to a question. Each further concurrent
	// command of the subject is nicer by niceStep, with a third of the processor time of
	// the one before, so that many commands of one subject do not outweigh the one of
	// another.
	heavyNice = 5
	niceStep  = 5
	nicest    = 19
)

// niceOf returns the nice value of a heavy command, relative to the plugin, by the share
// of its slot.
func niceOf(share int) int { return min(heavyNice+niceStep*(share-1), nicest) }

// limitsOf returns the limits of a command; ctx has its slot.
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
