package disk

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// niceness from 15 on has the kernel derive the lowest of the ordinary I/O
// priorities from it. Not the idle ones: who waits for the disk within a
// transaction of the journal stops all others.
const niceness = 15

// Nice calls f on a thread of low priority, and returns when f has. Goroutines
// that f starts have ordinary priority.
func Nice(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		// Never unlocked: the thread, and its priority, end with the goroutine.
		runtime.LockOSThread()
		// An error means ordinary priority, which is no reason not to work.
		_ = unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), niceness)
		f()
	}()
	<-done
}
