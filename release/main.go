// Command release makes a release and publishes its plugins and images, and makes an image for containers, for the Makefile.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"github.com/helmdeck/repos/release/bundle"
)

// left is what an interrupted command leaves behind.
var left = map[string]string{
	"make":    "nothing was changed",
	"publish": "some tags may be published; publish again to push the others",
	"image":   "nothing was changed",
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
	if len(args) == 0 || left[args[0]] == "" {
		return errors.New("want make, publish or image")
	}
	o := bundle.Options{Root: ".", Systems: bundle.Systems, Debs: true, Log: os.Stdout}
	flags := flag.NewFlagSet(args[0], flag.ExitOnError)
	flags.StringVar(&o.Version, "version", "", "the version")
	flags.StringVar(&o.Key, "key", "", "the private ssh key that signs")
	dirty := flags.String("dirty", "", "1: release a tree with changes that are not committed")
	strict := flags.String("strict", "", "1: passed to make rootfs")
	latest := flags.String("latest", "", "1: publish as latest too")
	flags.StringVar(&o.Repository, "repository", "", "where the plugin is published: HOST/NAME")
	var container bundle.ContainerImage
	flags.StringVar(&container.Arch, "arch", runtime.GOARCH, "the architecture of the image")
	flags.StringVar(&container.Program, "program", "", "the plugin's program")
	flags.StringVar(&container.Command, "command", "", "the operator's command")
	flags.StringVar(&container.Name, "name", "", "the name of the image, without a tag")
	flags.StringVar(&container.Archive, "archive", "", "the file for the image")
	flags.Parse(args[1:])
	for name, value := range map[string]string{"DIRTY": *dirty, "STRICT": *strict, "LATEST": *latest} {
		if value != "" && value != "1" {
			return fmt.Errorf("%s=%q: want 1, or nothing", name, value)
		}
	}
	o.Dirty, o.Strict = *dirty == "1", *strict == "1"
	switch args[0] {
	case "publish":
		return bundle.Publish(ctx, o, o.Repository, *latest == "1")
	case "image":
		return container.Make(ctx, o)
	}
	return bundle.Make(ctx, o)
}
