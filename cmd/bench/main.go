package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
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

// config is what a run measures, and where.
type config struct {
	files, dirty       numbers
	program, out, base string
}

// run measures, reports on stdout, and says on stderr how far it is.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	c := config{files: numbers{1000, 10000, 100000}, dirty: numbers{0, 1000, 50000}}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Var(&c.files, "files", "`numbers` of files in the repository")
	flags.Var(&c.dirty, "dirty", "`numbers` of new files in a workspace or clone that is reset")
	flags.StringVar(&c.program, "program", "build/helmdeck-repos", "the plugin's `program`")
	flags.StringVar(&c.out, "out", "build/bench.json", "the `file` for the results")
	flags.StringVar(&c.base, "dir", "/var/tmp", "the `directory` below which to work: a sparse file of some 15 GB for 100,000 files")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unknown argument %q", flags.Arg(0))
	}
	if os.Geteuid() != 0 {
		return errors.New("mounting needs root: run it as root")
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
		err = errors.New("interrupted")
	}
	r.Targets = targets(r)
	r.print(stdout)
	if err := errors.Join(err, r.write(c.out)); err != nil {
		return err
	}
	return r.missed()
}

// measure adds to the report what all rows take with this number of files.
func measure(ctx context.Context, c config, files int, r *report, progress io.Writer) (err error) {
	s, err := openScene(ctx, c, files)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil && ctx.Err() == nil {
			err = fmt.Errorf("%w\nthe plugin's log ends with:\n%s", err, s.plugin.logTail())
		}
		err = errors.Join(err, s.close())
	}()
	for _, g := range groups(s) {
		if err := g.measure(ctx, files, r, progress); err != nil {
			return err
		}
	}
	return nil
}

// numbers is a flag: numbers with commas between them.
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
			return fmt.Errorf("%q is no number of files", word)
		}
		*n = append(*n, v)
	}
	return nil
}
