// Command scribble does random operations below a directory until it is killed, in several threads at once.
//
//	scribble DIRECTORY SKIP SEED
//
// SKIP is a name in the directory that is left alone.
package main

import (
	"fmt"
	"os"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/tests/testtree"
)

// writers is how many write at once.
const writers = 2

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: scribble DIRECTORY SKIP SEED")
		os.Exit(2)
	}
	seed, err := strconv.ParseUint(os.Args[3], 10, 64)
	if err != nil {
		fmt.Fprintln(os.Stderr, "scribble:", err)
		os.Exit(2)
	}
	unix.Umask(0o022)
	var all sync.WaitGroup
	for n := range uint64(writers) {
		all.Go(func() {
			w := testtree.NewWriter(os.Args[1], os.Args[2], seed*writers+n)
			for {
				w.Do()
			}
		})
	}
	all.Wait()
}
