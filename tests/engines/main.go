// Command engines tests the plugin on Docker engines of several releases, which fetch has unpacked
// below build/engines. It runs the end-to-end tests, the assertions of the engine's own tests of
// volume drivers, and the events (tests/event_test.go), each event on a quiet machine and under
// load. It prints a line for each cell when the cell is done. At the end it prints the table engine
// × scenario and the cells that failed. A cell fails if it is empty or not held.
//
//	-rounds N     the most rounds of an event; on 20.10 at most 20
//	-engines A,B  only these engines
//	-run REGEXP   only these rows
//
// It must run as root, and only once at a time on a machine. The output of the tests is in
// build/engines/<version>.log.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

const (
	dir    = "build/engines"
	binary = "build/engines.test"
	// oldest is the engine with at most oldestRounds rounds.
	oldest, oldestRounds = "20.10", 20
)

// row is a scenario: the tests of one cell on each engine.
type row struct {
	name string
	// run and skip select the tests: the values of the flags -test.run and -test.skip.
	run, skip string
	// event is set if the row is one of the two subtests of an event.
	event bool
}

func main() {
	rounds := flag.Int("rounds", 50, "the most rounds of an event")
	only := flag.String("engines", "", "the `versions` of the engines to test, separated by commas; empty: all")
	match := flag.String("run", "", "a regular `expression` that matches the names of the rows to run; empty: all")
	flag.Parse()
	runtime.LockOSThread() // a child's Pdeathsig fires at the end of the thread that started it
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *rounds, *only, *match); err != nil {
		fmt.Fprintln(os.Stderr, "engines:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, rounds int, only, match string) error {
	engines, err := versions(only)
	if err != nil {
		return err
	}
	wanted, err := regexp.Compile(match)
	if err != nil {
		return err
	}
	build := exec.CommandContext(ctx, "go", "test", "-buildvcs=false", "-c", "-o", binary, "./tests")
	build.Stdout, build.Stderr = os.Stdout, os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("build the tests: %w", err)
	}
	rows, err := scenarios(ctx)
	if err != nil {
		return err
	}
	rows = slices.DeleteFunc(rows, func(r row) bool { return !wanted.MatchString(r.name) })
	if len(rows) == 0 {
		return fmt.Errorf("no row matches %q", match)
	}
	t := table{engines: engines, rows: rows, cells: map[[2]string]cell{}}
	for _, engine := range engines {
		if err := t.column(ctx, engine, rounds); err != nil {
			return err
		}
		if ctx.Err() != nil {
			break
		}
	}
	return t.print()
}

// versions returns the versions of the unpacked engines, the oldest first. only selects some,
// separated by commas.
func versions(only string) ([]string, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*", "usr/sbin/dockerd"))
	if err != nil {
		return nil, err
	}
	var all []string
	for _, path := range paths {
		all = append(all, strings.Split(path, "/")[2])
	}
	slices.SortFunc(all, func(a, b string) int { return slices.Compare(numbers(a), numbers(b)) })
	if only != "" {
		wanted := strings.Split(only, ",")
		for _, name := range wanted {
			if !slices.Contains(all, name) {
				return nil, fmt.Errorf("no engine %q: %s has %q", name, dir, all)
			}
		}
		all = slices.DeleteFunc(all, func(name string) bool { return !slices.Contains(wanted, name) })
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s has no engine: run tests/engines/fetch", dir)
	}
	return all, nil
}

// numbers returns the numbers of a version.
func numbers(version string) (list []int) {
	for _, part := range strings.Split(version, ".") {
		n, _ := strconv.Atoi(part)
		list = append(list, n)
	}
	return list
}

// scenarios returns the rows: one for the end-to-end tests, one for the volume driver tests, and
// two for each event.
func scenarios(ctx context.Context) ([]row, error) {
	list := exec.CommandContext(ctx, "../"+binary, "-test.list", "^TestEvent")
	list.Dir, list.Stderr = "tests", os.Stderr
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("list the events: %w", err)
	}
	const driver = "^Test(External)?Volume(Driver|CLI)"
	rows := []row{
		{name: "end to end", run: "^Test", skip: "^TestEvent|^TestRecipe|" + driver},
		{name: "moby's volume driver suite", run: driver},
	}
	for _, test := range strings.Fields(string(out)) {
		for _, load := range []string{"quiet", "loaded"} {
			rows = append(rows, row{name: eventName(test) + ", " + load, run: "^" + test + "$/^" + load + "$", event: true})
		}
	}
	return rows, nil
}

// eventName returns the words of a test's name: TestEventPluginKilled becomes "plugin killed".
func eventName(test string) string {
	words := regexp.MustCompile(`[A-Z]`).ReplaceAllString(strings.TrimPrefix(test, "TestEvent"), " $0")
	return strings.ToLower(strings.TrimSpace(words))
}

// column runs all rows on an engine and fills its cells.
func (t *table) column(ctx context.Context, engine string, rounds int) error {
	log, err := os.Create(filepath.Join(dir, engine+".log"))
	if err != nil {
		return err
	}
	defer log.Close()
	if engine == oldest {
		rounds = min(rounds, oldestRounds)
	}
	for _, r := range t.rows {
		if ctx.Err() != nil {
			return nil
		}
		args := []string{"-test.v", "-test.timeout", "6h", "-test.run", r.run}
		if r.skip != "" {
			args = append(args, "-test.skip", r.skip)
		}
		if r.event {
			args = append(args, "-rounds", fmt.Sprint(rounds))
		}
		c := t.try(ctx, engine, r, args, log)
		t.cells[[2]string{engine, r.name}] = c
		fmt.Printf("%-6s %-55s %s\n", engine, r.name, c)
	}
	return nil
}

// try runs the tests of one cell.
func (t *table) try(ctx context.Context, engine string, r row, args []string, log io.Writer) cell {
	cmd := exec.CommandContext(ctx, "../"+binary, args...)
	cmd.Dir = "tests"
	cmd.Env = append(os.Environ(), "ENGINE=../"+filepath.Join(dir, engine))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.CombinedOutput()
	fmt.Fprintf(log, "\n===== %s\n%s", r.name, out)
	return read(string(out), r.event, err)
}
