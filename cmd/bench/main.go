package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/helmdeck/repos/tests/dockerd"
)

func main() {
	if os.Geteuid() == 0 { // without root it measures nothing
		if err := dockerd.Isolate(); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
	}
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
	sizes, dirty numbers // of files
	copied       numbers // of files of which checkpoints are made
	runs         int     // samples of a row; fast rows have more
	rows         string  // comma-separated names of groups; empty for all
	doomed       int     // files that are deleted beside mounts
	modules      int     // files of a node_modules
	crowd        int     // concurrent mounts
	planned      int     // clones for which the janitor plans
	commits      int     // commits of the repository with a long history

	program, plugin string
	out, base       string
	repos           string // a directory with bare repositories to measure; empty for generated ones
	gitSync         string // the program git-sync; empty to do its work without it
	report          string // the directory for the page; empty to measure
	against         string // the commit to compare with; empty for none
}

// againstDefaults are the defaults of flags that differ with -against. With them every row is
// measured nine times for each of two builds, in some 17 minutes on two cores.
var againstDefaults = map[string]string{
	"files": "100000", "runs": "9", "dirty": "0,50000", "doomed": "50000", "out": "build/bench-against.txt",
}

// reposDefaults are those that differ with -repos, and reposResults the name of the file.
var reposDefaults = map[string]string{"runs": "3", "out": "build/" + reposResults}

const reposResults = "bench-repos.json"

// defaults returns the sizes and numbers that are measured without flags. The targets are for these.
func defaults() config {
	return config{
		sizes: numbers{1000, 10000, 100000}, dirty: numbers{0, 1000, targetDirty}, copied: numbers{1000, 10000}, doomed: targetDoomed,
		modules: targetModules, crowd: targetCrowd, planned: targetPlanned, commits: targetCommits,
	}
}

// run measures. It writes the report to stdout and the progress to stderr.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	c := defaults()
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Var(&c.sizes, "files", "`numbers` of files in the repository")
	flags.Var(&c.dirty, "dirty", "`numbers` of new files in a workspace or clone that is reset")
	flags.Var(&c.copied, "copied", "`numbers` of changed files of which checkpoints are made")
	flags.IntVar(&c.runs, "runs", 7, "how often each row is measured; fast rows are measured more often")
	flags.StringVar(&c.rows, "rows", "", "the `groups` of rows to measure, separated by commas: "+strings.Join(c.groupNames(), ","))
	flags.IntVar(&c.doomed, "doomed", c.doomed, "how many files are deleted beside mounts")
	flags.IntVar(&c.modules, "modules", c.modules, "how many files a node_modules has")
	flags.IntVar(&c.crowd, "crowd", c.crowd, "how many mounts run concurrently")
	flags.IntVar(&c.planned, "clones", c.planned, "how many clones the janitor plans for")
	flags.IntVar(&c.commits, "commits", c.commits, "how many commits the repository with a long history has")
	flags.StringVar(&c.program, "program", "build/helmdeck-repos", "the plugin's `program`")
	flags.StringVar(&c.plugin, "plugin", "build/plugin", "the plugin's `directory`, as make plugin makes it; empty to omit the rows with containers")
	flags.StringVar(&c.out, "out", "build/bench.json", "the `file` for the results; with -against build/bench-against.txt")
	flags.StringVar(&c.base, "dir", "/var/tmp", "the `directory` for temporary files, up to 12 GB with 100,000 files")
	flags.StringVar(&c.repos, "repos", "", "measure the bare repositories in this `directory`, NAME.git or OWNER/NAME.git: the groups cold, warm and update, each row 3 times")
	flags.StringVar(&c.gitSync, "gitsync", "", "the `program` git-sync, instead of an imitation")
	flags.StringVar(&c.report, "report", "", "measure nothing, and write the page of the results in -out, and in "+reposResults+" beside it, to this `directory`")
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
	others := map[string]string{}
	if c.repos != "" {
		maps.Copy(others, reposDefaults)
	}
	if c.against != "" {
		maps.Copy(others, againstDefaults)
	}
	flags.Visit(func(f *flag.Flag) { delete(others, f.Name) })
	for name, value := range others {
		if err := flags.Set(name, value); err != nil {
			return err
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
		return compareBuilds(ctx, c, stderr)
	}
	r, err := newReport(ctx, c)
	if err != nil {
		return err
	}
	columns, err := c.columns()
	if err != nil {
		return err
	}
	for _, at := range columns {
		if err = measure(ctx, c, at, r, stderr); err != nil {
			err = fmt.Errorf("%v: %w", at, err)
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
		if !slices.Contains(c.groupNames(), name) {
			return fmt.Errorf("-rows %s: unknown group %q; allowed are %s", c.rows, name, strings.Join(c.groupNames(), ", "))
		}
	}
	return nil
}

// wanted returns the names of the groups to measure.
func (c config) wanted() []string {
	if c.rows == "" {
		return c.groupNames()
	}
	return strings.Split(c.rows, ",")
}

// has reports whether to measure a group.
func (c config) has(name string) bool { return slices.Contains(c.wanted(), name) }

// chosen returns the groups to measure for a column.
func (c config) chosen(at column) (chosen []group) {
	for _, g := range groups(c) {
		if c.has(g.name) && (!g.once || at.files == slices.Max(c.sizes)) && (!g.container || c.plugin != "") {
			chosen = append(chosen, g)
		}
	}
	return chosen
}

// measure adds all rows of a column to the report.
func measure(ctx context.Context, c config, at column, r *report, progress io.Writer) (err error) {
	chosen := c.chosen(at)
	if len(chosen) == 0 {
		return nil
	}
	p, err := openPlace(ctx, c, at)
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
