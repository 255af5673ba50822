// Command demo serves a sample repository on loopback, for the script beside it. It prints the URL, and for each line
// of stdin how many clones and how many requests for refs it has served. It ends with stdin, and leaves nothing behind.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"

	"github.com/helmdeck/repos/internal/git/gitserver"
)

const (
	// address is fixed, and the commits are always the same, so that the clone of an earlier demo can be reused. The
	// port is not in the ephemeral range.
	address = "127.0.0.1:19418"
	dir     = "build/demo" // the demo runs in the project's directory
	name    = "sample-project"
)

func main() {
	signal.Ignore(os.Interrupt) // a terminal sends it to the script too, which then closes stdin
	err := serve(dir, address, os.Stdin, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo: sample repository:", err)
		os.Exit(1)
	}
}

// serve makes the repository in dir, whose former content it deletes, and serves it until in ends. If another program
// uses the address, it takes a free port.
func serve(dir, address string, in io.Reader, out io.Writer) (err error) {
	if err := os.RemoveAll(dir); err != nil { // left by a demo that was killed
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	git, err := gitserver.Start(dir)
	if err != nil {
		return err
	}
	defer git.Close()
	spec := gitserver.Spec{Seed: 1, Files: 3000, Commits: 20, Changes: 10, Branches: []string{"feature/x"}}
	if _, err := gitserver.Generate(git.Path(name), spec); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		if listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			return err
		}
	}
	server := http.Server{Handler: git}
	defer server.Close()
	go server.Serve(listener)
	fmt.Fprintf(out, "http://%s/%s\n", listener.Addr(), name)
	for lines := bufio.NewScanner(in); lines.Scan(); {
		stats := git.Stats(name)
		fmt.Fprintln(out, stats.Clones, stats.LsRefs)
	}
	return nil
}
