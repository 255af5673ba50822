package main

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/helmdeck/repos/internal/memory"
)

// shares are bytes of memory.
type shares struct {
	own   int64 // what the collector keeps the plugin below, as far as it can
	child int64 // what a process may have that runs for a repository
}

// sharesOf divides the memory that there is. Three children that take all they may
// leave nothing, but the kernel ends them before the plugin then. index-pack takes
// some 1.5 GiB for Linux, and git does little with less than 256 MiB. The plugin's
// part holds the records of 100,000 clones.
func sharesOf(total int64) shares {
	return shares{
		own:   min(max(total/8, 128<<20), 1<<30),
		child: min(max(total/3, 256<<20), 4<<30),
	}
}

// limitMemory sets the plugin's own limit, unless GOMEMLIMIT did, and returns that
// of a child; zero where it is not known how much memory there is.
func limitMemory(log *logrus.Logger) (child int64) {
	total, err := memory.Limit()
	if err != nil {
		log.WithError(err).Warn("it is not known how much memory there is: children have the default limit")
		return 0
	}
	s := sharesOf(total)
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(s.own)
	}
	return s.child
}

const (
	// trimInterval has memory given back within a minute: the first look after a
	// build may come while the last of it is still in use.
	trimInterval = 20 * time.Second
	// trimFrom is below what the plugin may hold when nothing is to be done, 40 MiB
	// with its program. The collector itself waits two minutes for the next
	// allocation, and keeps what it may need again.
	trimFrom = 20 << 20
)

// trim gives memory back to the system that a build has left, until ctx ends.
func trim(ctx context.Context) {
	tick := time.NewTicker(trimInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if held() > trimFrom {
				debug.FreeOSMemory()
			}
		}
	}
}

// held returns how many bytes the runtime has from the system.
func held() uint64 {
	samples := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(samples)
	return samples[0].Value.Uint64() - samples[1].Value.Uint64()
}
