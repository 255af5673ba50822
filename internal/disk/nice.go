package disk

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// niceness 15 and above gives a thread the lowest best-effort I/O priority. The idle
// class would be wrong: a thread that waits for the disk within a journal transaction
// blocks all others.
const niceness = 15

// Nice calls f on a thread of low priority, and returns when f has. Goroutines
// that f starts have ordinary priority.
func Nice(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		// Never unlocked: the thread, and its priority, end with the goroutine.
		runtime.LockOSThread()
		// After an error f runs with ordinary priority.
		_ = unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), niceness)
		f()
	}()
	<-done
}
