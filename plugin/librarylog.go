package main

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// What libraries may log: net/http writes a line for each frame of HTTP/2 that it does not know, and a remote sends some
// hundred thousand of these before its connection is closed.
const (
	libraryLines = 20
	libraryEvery = time.Minute
)

// libraryLog is the output of package log, which only libraries use. In each libraryEvery it passes the first libraryLines
// lines, and then says how many it left out.
type libraryLog struct {
	out io.Writer

	mu      sync.Mutex
	began   time.Time // of the interval
	passed  int
	leftOut int
}

// Write writes one line, or leaves it out.
func (l *libraryLog) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now(); now.Sub(l.began) >= libraryEvery {
		if l.leftOut > 0 {
			fmt.Fprintf(l.out, "%d more lines of libraries were left out\n", l.leftOut)
		}
		l.began, l.passed, l.leftOut = now, 0, 0
	}
	if l.passed == libraryLines {
		l.leftOut++
		return len(line), nil
	}
	l.passed++
	return l.out.Write(line)
}
