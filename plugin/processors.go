package main

import (
	"os"
	"runtime"
)

// lowThreads is how many threads of a low priority (disk.Nice) compute at a time: some of
// inspections, pushes, measurements and the trash.
const lowThreads = 8

// yieldToOrdinary lets goroutines of ordinary priority run beside threads of a low one. The runtime
// runs as many goroutines at a time as there are processors. A thread of a low priority that waits
// for a processor counts, and keeps its place until it runs again, so a few of them would hold up
// every mount: beside eight inspections of large workspaces, one took ten times as long.
func yieldToOrdinary() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + lowThreads)
	}
}
