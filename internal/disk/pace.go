package disk

import (
	"bytes"
	"context"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// slice is how long a paced walk works before it rests. A system call that waits for the
// disk makes that, and the rest, longer.
const slice = 5 * time.Millisecond

// Pace slows a walk down, to leave the disk and the processor to others: it rests in
// proportion to the time worked. To wait for the disk is work, because others wait for it
// too, but at most mostWaits times the computing: on a busy machine the threads of the kernel
// that end such a wait have to wait themselves. To wait for a processor is no work: the more
// others want it, the longer would be the rest. The zero value never rests. A Pace serves one walk at a
// time, which must stay on one thread; SetRest may be called at any time.
type Pace struct {
	rest  atomic.Int64 // in percent of the time worked
	wake  chan struct{}
	calls int
	// since is when count was last called; zero while stopped. before are the times of the
	// thread until then.
	since  time.Time
	before times
	// worked is the working time since the last rest, also that of earlier walks.
	worked time.Duration
	// look returns the times of this thread.
	look func() times
}

// times are how long a thread has computed, and waited for a processor, since it began.
type times struct{ computed, queued time.Duration }

// mostWaits is how much of the waiting for the disk counts, in times of the computing. To
// delete a file of a fast disk takes two.
const mostWaits = 3

// NewPace returns a Pace that rests percent of the time worked: with 300 it works a
// quarter of the time.
func NewPace(percent int64) *Pace {
	p := &Pace{wake: make(chan struct{}, 1), look: threadTimes}
	p.SetRest(percent)
	return p
}

// SetRest changes the percentage, 0 for full speed, and ends a current rest.
func (p *Pace) SetRest(percent int64) {
	p.rest.Store(percent)
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// pause is called before each step, and rests when a slice is over. The first call after
// stop starts the clock. The error is the context's. A nil Pace never rests.
func (p *Pace) pause(ctx context.Context) error {
	if p == nil {
		return ctx.Err()
	}
	rest := p.rest.Load()
	if rest == 0 { // work at full speed needs no rest later
		p.since, p.worked, p.calls = time.Time{}, 0, 0
		return ctx.Err()
	}
	if p.calls++; p.calls%16 != 1 {
		return ctx.Err()
	}
	if p.since.IsZero() {
		p.start()
		return ctx.Err()
	}
	if p.worked+time.Since(p.since) < slice {
		return ctx.Err() // spares the look at the thread
	}
	if p.count(); p.worked < slice {
		return ctx.Err()
	}
	timer := time.NewTimer(p.worked * time.Duration(rest) / 100)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-p.wake:
	}
	p.worked = 0
	p.start()
	return ctx.Err()
}

// stop ends a walk: the time until the next one does not count as work. A nil Pace does
// nothing.
func (p *Pace) stop() {
	if p == nil {
		return
	}
	p.count()
	p.since, p.calls = time.Time{}, 0
}

// start starts the clock.
func (p *Pace) start() { p.since, p.before = time.Now(), p.look() }

// count adds the time since the last count or start to worked, without that in which the
// thread waited for a processor.
func (p *Pace) count() {
	if !p.since.IsZero() {
		since, before := p.since, p.before
		p.start()
		worked := p.since.Sub(since) - (p.before.queued - before.queued)
		if computed := p.before.computed - before.computed; computed > 0 {
			worked = min(worked, (1+mostWaits)*computed)
		}
		p.worked += max(worked, 0)
	}
}

// threadTimes returns the times of this thread; zeros on a kernel that does not count them:
// then all of the time counts as work.
func threadTimes() times {
	// The numbers are nanoseconds on a processor, nanoseconds of waiting for one, and time slices.
	// Without an os.File, which would make it three times the system calls: short walks begin and end with each Mount.
	fd, err := unix.Open("/proc/thread-self/schedstat", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return times{}
	}
	defer unix.Close(fd)
	var line [128]byte
	n, err := unix.Read(fd, line[:])
	fields := bytes.Fields(line[:max(n, 0)])
	if err != nil || len(fields) < 2 {
		return times{}
	}
	computed, _ := strconv.ParseInt(string(fields[0]), 10, 64)
	queued, _ := strconv.ParseInt(string(fields[1]), 10, 64)
	return times{time.Duration(computed), time.Duration(queued)}
}

// Lowest is for work that never rests.
const Lowest = 15

// The lowest I/O priority of the class "best effort" is that of a thread without real-time needs
// that gives way. The class "idle" would be wrong: a thread that waits for the disk within a
// journal transaction blocks all others.
const (
	ioprioWhoProcess = 1
	ioprioLow        = 2<<13 | 7
)

// Nice calls f on a thread of the lowest I/O priority and with a niceness from 1 to 19, and
// returns when f has. Goroutines that f starts have ordinary priority. A thread with a niceness
// of Lowest gets a thirtieth of a processor that somebody else wants.
func Nice(niceness int, f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		// Never unlocked: the thread, and its priority, end with the goroutine.
		runtime.LockOSThread()
		// After an error f runs with ordinary priority.
		_ = unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), niceness)
		_, _, _ = unix.Syscall(unix.SYS_IOPRIO_SET, ioprioWhoProcess, 0, ioprioLow)
		f()
	}()
	<-done
}
