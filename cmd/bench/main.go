package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if errors.Is(err, flag.ErrHelp) {
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// config has the flags of a run.
type config struct {
	files, dirty numbers
	runs         int    // samples of a row; fast rows have more
	rows         string // comma-separated names of groups; empty for all
	doomed       int    // files that are deleted beside mounts
	modules      int    // files of a node_modules
	crowd        int    // concurrent mounts
	planned      int    // clones for which the janitor plans
	commits      int    // commits of the repository with a long history

	program, plugin string
	out, base       string
	report          string // the directory for the page; empty to measure
	against         string // the commit to compare with; empty for none
}

// againstDefaults are the defaults of flags that differ with -against. With them every row is
// measured nine times for each of three builds, in less than 25 minutes on two cores.
var againstDefaults = map[string]string{
	"files": "100000", "runs": "9", "dirty": "0,50000", "doomed": "50000", "out": "build/bench-against.json",
}

// run measures. It writes the report to stdout and the progress to stderr.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	c := config{files: numbers{1000, 10000, 100000}, dirty: numbers{0, 1000, 50000}}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Var(&c.files, "files", "`numbers` of files in the repository")
	flags.Var(&c.dirty, "dirty", "`numbers` of new files in a workspace or clone that is reset")
	flags.IntVar(&c.runs, "runs", 7, "how often each row is measured; fast rows are measured more often")
	flags.StringVar(&c.rows, "rows", "", "the `groups` of rows to measure, separated by commas: "+strings.Join(groupNames(), ","))
	flags.IntVar(&c.doomed, "doomed", 1000000, "how many files are deleted beside mounts")
	flags.IntVar(&c.modules, "modules", 20000, "how many files a node_modules has")
	flags.IntVar(&c.crowd, "crowd", 64, "how many mounts run concurrently")
	flags.IntVar(&c.planned, "clones", 100000, "how many clones the janitor plans for")
	flags.IntVar(&c.commits, "commits", 20000, "how many commits the repository with a long history has")
	flags.StringVar(&c.program, "program", "build/helmdeck-repos", "the plugin's `program`")
	flags.StringVar(&c.plugin, "plugin", "build/plugin", "the plugin's `directory`, as make plugin makes it; empty to omit the rows with containers")
	flags.StringVar(&c.out, "out", "build/bench.json", "the `file` for the results; with -against build/bench-against.json")
	flags.StringVar(&c.base, "dir", "/var/tmp", "the `directory` for temporary files, up to 12 GB with 100,000 files")
	flags.StringVar(&c.report, "report", "", "measure nothing, and write the page of the results in -out to this `directory`")
	flags.StringVar(&c.against, "against", "", "compare with the build of this `commit`, in turns: -runs is the number of turns, 9 by default")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unknown argument %q", flags.Arg(0))
	}
	if c.report != "" && c.against != "" {
		return errors.New("-report and -against exclude each other: the page needs a run without -against")
	}
	if c.against != "" {
		given := map[string]bool{}
		flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
		for name, value := range againstDefaults {
			if given[name] {
				continue
			}
			if err := flags.Set(name, value); err != nil {
				return err
			}
		}
	}
	if c.report != "" {
		return writePage(c.out, c.report)
	}
	if c.runs < 1 {
		return fmt.Errorf("-runs %d: each row needs at least one run", c.runs)
	}
	if err := c.check(); err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		return errors.New("mounting needs root: run bench as root")
	}
	if c.against != "" {
		return compareBuilds(ctx, c, stdout, stderr)
	}
	r, err := newReport(ctx)
	if err != nil {
		return err
	}
	for _, files := range c.files {
		if err = measure(ctx, c, files, r, stderr); err != nil {
			err = fmt.Errorf("%d files: %w", files, err)
			break
		}
	}
	if ctx.Err() != nil {
		left, _ := errors.AsType[leftError](err)
		err = errors.Join(errors.New("interrupted"), left.error)
	}
	r.Targets = targets(r)
	r.print(stdout)
	return errors.Join(err, r.write(c.out))
}

// check returns an error if -rows has an unknown group.
func (c config) check() error {
	for _, name := range c.wanted() {
		if !slices.Contains(groupNames(), name) {
			return fmt.Errorf("-rows %s: unknown group %q; allowed are %s", c.rows, name, strings.Join(groupNames(), ", "))
		}
	}
	return nil
}

// wanted returns the names of the groups to measure.
func (c config) wanted() []string {
	if c.rows == "" {
		return groupNames()
	}
	return strings.Split(c.rows, ",")
}

// has reports whether to measure a group.
func (c config) has(name string) bool { return slices.Contains(c.wanted(), name) }

// chosen returns the groups to measure with this number of files.
func (c config) chosen(files int) (chosen []group) {
	for _, g := range groups(c) {
		if c.has(g.name) && (!g.once || files == slices.Max(c.files)) && (!g.container || c.plugin != "") {
			chosen = append(chosen, g)
		}
	}
	return chosen
}

// measure adds all rows with this number of files to the report.
func measure(ctx context.Context, c config, files int, r *report, progress io.Writer) (err error) {
	chosen := c.chosen(files)
	if len(chosen) == 0 {
		return nil
	}
	p, err := openPlace(c, files)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.close()) }()
	for _, g := range chosen {
		if err := g.measure(ctx, p, r, progress); err != nil {
			return fmt.Errorf("%s: %w", g.name, err)
		}
	}
	return nil
}

// numbers is a flag of comma-separated numbers.
type numbers []int

func (n *numbers) String() string {
	var words []string
	for _, v := range *n {
		words = append(words, strconv.Itoa(v))
	}
	return strings.Join(words, ",")
}

func (n *numbers) Set(text string) error {
	*n = nil
	for word := range strings.SplitSeq(text, ",") {
		v, err := strconv.Atoi(word)
		if err != nil || v < 0 {
			return fmt.Errorf("%q is not a number of files", word)
		}
		*n = append(*n, v)
	}
	return nil
}
