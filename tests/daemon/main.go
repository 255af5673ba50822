package daemon

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"runtime"
	"strconv"
)

// Main runs the tests of a package that starts the program. It builds the program with tags, calls
// run, and exits with the code that run returns. scratch is a directory for all tests of the
// package. The fetching uid can enter it, and its path is short because the paths of sockets
// contain it.
func Main(name string, tags []string, run func(scratch, program string) (code int, err error)) {
	code, err := buildAndRun(name, tags, run)
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

func buildAndRun(name string, tags []string, run func(scratch, program string) (int, error)) (code int, err error) {
	log.SetOutput(io.Discard) // net/http/cgi logs an error for every client that hangs up
	if os.Geteuid() != 0 {
		return 1, errors.New("run the tests as root: they mount")
	}
	scratch, err := os.MkdirTemp("/var/tmp", "hd-"+name+"-")
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	if err := os.Chmod(scratch, 0o755); err != nil {
		return 1, err
	}
	program, err := Build(scratch, tags...)
	if err != nil {
		return 1, err
	}
	return run(scratch, program)
}

// DoubleParallel parses the flags, and lets twice as many parallel tests run as there are
// processors unless the flag -parallel is given, because tests that start programs wait more than
// they compute.
func DoubleParallel() error {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if given {
		return nil
	}
	return flag.Set("test.parallel", strconv.Itoa(2*runtime.GOMAXPROCS(0)))
}
