package work

import (
	"runtime"
	"time"
)

// Limits limit the slots of one kind.
type Limits struct {
	Slots int // granted at the same time
	// PerSubject is how many of these are granted to one subject, and as many to its jobs that give way, which are
	// counted apart: the others do not wait for them.
	PerSubject int
	// Overdue is how many more slots may be granted, one for each slot that is held for
	// longer than Quantum, or whose job gives way, while others wait. So a subject whose work
	// never ends slows the others down but does not stop them.
	Overdue int
	Quantum time.Duration
	// Again is how many overdue slots of a subject do not count for PerSubject, so that its work that
	// never ends does not stop the rest of its work. AgainOfAll is how many slots all subjects together hold
	// beyond PerSubject. They are in addition to Slots and Overdue, because no other subject may wait for them.
	Again, AgainOfAll int
}

// processors is read before anything changes GOMAXPROCS.
var processors = runtime.GOMAXPROCS(0)

// Processors returns how many processors this process may keep busy: those of its affinity, but no more than what the quota of its
// control group is worth (at least 2), or what the variable GOMAXPROCS says.
func Processors() int { return processors }

// DefaultLimits returns the limits, by Kind, for a number of processors. No subject can
// keep all slots of a kind from others.
func DefaultLimits(processors int) [3]Limits {
	// Two subjects could not share a single slot.
	cpu := max(processors, 2)
	return [3]Limits{
		// A job of a small repository takes less than a second. One that takes longer than
		// three seconds gives way to others, each of which costs one more process: a job
		// behind those of six subjects waits about ten seconds. Four subjects that hold all
		// they can, with what gives way twice PerSubject each, leave a slot to others.
		CPU: {Slots: cpu, PerSubject: cpu - 1, Overdue: 7 * cpu, Quantum: 3 * time.Second},
		// A fetch is about three processes. They mostly wait, but on loopback, or when many
		// packs arrive at the same time, they keep processors busy, so the limits depend on
		// the number of processors. Most fetch a few commits, in less than a second. Four
		// subjects can take all slots with fetches that never end: then others wait that long.
		Fetch: {Slots: 8 * cpu, PerSubject: 2 * cpu, Overdue: 24 * cpu, Quantum: 10 * time.Second},
		// A question is one request or one process, and has a timeout of 20 s.
		Question: {Slots: 64, PerSubject: 32, Overdue: 64, Quantum: 10 * time.Second},
	}
}
