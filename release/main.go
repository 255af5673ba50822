// Command release makes a release and publishes its plugins, for the Makefile.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/helmdeck/repos/release/bundle"
)

// left is what an interrupted command leaves behind.
var left = map[string]string{
	"make":    "nothing was changed",
	"publish": "some tags may be published; publish again to push the others",
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		if ctx.Err() != nil {
			err = errors.New("interrupted: " + left[os.Args[1]])
		}
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 || args[0] != "make" && args[0] != "publish" {
		return errors.New("want make or publish")
	}
	o := bundle.Options{Root: ".", Systems: bundle.Systems, Debs: true, Log: os.Stdout}
	flags := flag.NewFlagSet(args[0], flag.ExitOnError)
	flags.StringVar(&o.Version, "version", "", "the version")
	flags.StringVar(&o.Key, "key", "", "the private ssh key that signs")
	dirty := flags.String("dirty", "", "1: release a tree with changes that are not committed")
	strict := flags.String("strict", "", "1: passed to make rootfs")
	latest := flags.String("latest", "", "1: publish as latest too")
	repository := flags.String("repository", "", "where to publish: HOST/NAME")
	flags.Parse(args[1:])
	for name, value := range map[string]string{"DIRTY": *dirty, "STRICT": *strict, "LATEST": *latest} {
		if value != "" && value != "1" {
			return fmt.Errorf("%s=%q: want 1, or nothing", name, value)
		}
	}
	o.Dirty, o.Strict = *dirty == "1", *strict == "1"
	if args[0] == "publish" {
		return bundle.Publish(ctx, o, *repository, *latest == "1")
	}
	return bundle.Make(ctx, o)
}
