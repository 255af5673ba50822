package main

import (
	"cmp"
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/helmdeck/repos/internal/disk/memory"
)

// shares are bytes of memory.
type shares struct {
	own   int64 // the garbage collector's soft limit for the plugin
	child int64 // the limit of each process that runs for a repository
}

// sharesOf divides the total memory. Three children at their limit leave nothing, but
// then the kernel kills them before the plugin. index-pack needs some 1.5 GiB for Linux,
// and git can do little with less than minGitMemory. The plugin's share is enough for the
// records of 100,000 clones.
func sharesOf(total int64) shares {
	return shares{
		own:   min(max(total/8, 128<<20), 1<<30),
		child: min(max(total/3, minGitMemory), 4<<30),
	}
}

// limitMemory sets the plugin's own limit, unless GOMEMLIMIT is set. It returns the limit of a
// child, which is the setting if that is not zero. It is zero if the total memory is unknown.
func limitMemory(setting int64, log *logrus.Logger) (child int64) {
	total, err := memory.Limit()
	if err != nil {
		log.WithError(err).Warn("the amount of memory is unknown: children get the default limit, or GIT_MEMORY")
		return setting
	}
	s := sharesOf(total)
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(s.own)
	}
	return cmp.Or(setting, s.child)
}

const (
	// trimInterval is short enough to return memory within a minute, although some may still
	// be in use at the first tick after a build.
	trimInterval = 20 * time.Second
	// trimFrom keeps the idle plugin below 40 MiB, its program included. The garbage
	// collector itself may run only after two minutes, and keeps memory for reuse.
	trimFrom = 20 << 20
)

// trim returns unused memory to the system, until ctx ends.
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

// held returns how many bytes the Go runtime has from the system.
func held() uint64 {
	samples := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(samples)
	return samples[0].Value.Uint64() - samples[1].Value.Uint64()
}
