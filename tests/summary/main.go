// Command summary reads what gotestsum has written of the parts of a test run, and prints what a reader looks for at
// its end: the slowest tests, those that passed only when they were run again, and what failed.
//
//	summary -flaky FILE EVENTS...
//
// EVENTS are files of events as "go test -json" writes them, one for each part (gotestsum -jsonfile). A test is flaky if
// it failed and passed later in the same file. Flaky tests do not fail the run, but they are printed with the output of
// the failure, and that is written to FILE, which does not exist after a run without them.
//
// The exit code is 1 if a test failed at its last try, if more than five tests of all parts failed at their first, or if
// something failed outside of a test, such as TestMain: gotestsum runs the failed tests of such a package again, and
// calls it passed if they pass.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
)

// slowest is how many tests are listed.
const slowest = 20

// mostFailures is how many tests may fail and pass when they are run again. gotestsum applies the same limit to each
// part.
const mostFailures = 5

func main() {
	flaky := flag.String("flaky", "", "the `file` for the output of flaky tests")
	flag.Parse()
	if err := run(*flaky, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "summary:", err)
		os.Exit(1)
	}
}

func run(flaky string, paths []string) error {
	if flaky == "" || len(paths) == 0 {
		return errors.New("want -flaky FILE and files of events")
	}
	var r results
	for _, path := range paths {
		if err := r.readFile(path); err != nil {
			return err
		}
	}
	fmt.Printf("\nThe %d slowest tests:\n", slowest)
	for _, t := range r.slowest(slowest) {
		fmt.Printf("%8.1f s  %s\n", t.seconds, t.name)
	}
	if err := os.Remove(flaky); err != nil && !os.IsNotExist(err) {
		return err
	}
	if text := r.flaky(); text != "" {
		fmt.Printf("\nFLAKY, because these tests failed and then passed. Each is a fault, of the test or of the product:\n%s", text)
		if err := os.WriteFile(flaky, []byte(text), 0o644); err != nil {
			return err
		}
	}
	failures := r.failures()
	if len(failures) > 0 {
		fmt.Printf("\nFAILED:\n%s\n", strings.Join(failures, "\n"))
	}
	passed, skipped, failed := r.count()
	fmt.Printf("\n%d passed, %d failed, %d skipped\n", passed, failed, skipped)
	if len(failures) > 0 {
		return fmt.Errorf("%d failures", len(failures))
	}
	return nil
}
