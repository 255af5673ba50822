// Command note prints hashes of what an output of make is made of. The Makefile runs it in the root of the repository,
// before it compiles: an output is old if a source changes while it is made.
package main

import (
	"fmt"
	"os"

	"github.com/helmdeck/repos/tests/built"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: note helmdeck-repos|docker-repos|plugin|rootfs")
		os.Exit(2)
	}
	text, err := built.Sources(".", os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "note:", err)
		os.Exit(1)
	}
	fmt.Print(text)
}
