// Command demo shows on the local engine what the plugin helmdeck/repos does: every docker command as a user would type
// it, what it is for, and what came of it. The plugin has to be installed and enabled.
//
// A caller may rely on this: what it claims it has checked, and the exit status is 1, with the reason on standard error,
// when something was not so. Containers and volumes of the demo are gone at the end, also after an error or an
// interrupt; the plugin, the clone and the image helmdeck-demo stay.
//
//	REPO    URL of a repository; without it a generated one, served on loopback for as long as the demo runs
//	REF     branch, tag or commit of REPO; without it the remote's HEAD
//	IMAGE   image of the containers, with a shell; without it helmdeck-demo, made on the spot
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, source{os.Getenv("REPO"), os.Getenv("REF")}, os.Getenv("IMAGE"))
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "\ndemo:", err)
		os.Exit(1)
	}
}

// run shows everything, and cleans up whatever happens.
func run(ctx context.Context, src source, image string) (err error) {
	say(`helmdeck/repos is a Docker volume plugin: a container that mounts one of its volumes finds a private, writable,
clean checkout of a git repository there, with warm caches. The clone outlives container and volume.
The plugin is installed in this machine's engine. All containers below run with --network none: they need neither a
network nor git credentials to get their checkout.`)
	d := &demo{docker: docker{out: os.Stdout}}
	if err := d.cleanUp(ctx); err != nil { // what an interrupted demo left
		return err
	}
	defer func() {
		// Also when ctx has ended: that is when there is something left.
		cleaned := d.cleanUp(context.WithoutCancel(ctx))
		if ctx.Err() != nil {
			err = errors.New("interrupted")
		}
		err = errors.Join(err, cleaned)
	}()

	title("The repository")
	if src.repo == "" {
		sample, err := startSample()
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, sample.close()) }()
		d.sample, src = sample, sample.source
	} else if err := src.check(); err != nil {
		return err
	}
	d.source = src
	say("%s, ref %s", src.repo, src.refName())

	title("The image")
	if err := d.prepareImage(ctx, image); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{
		d.createVolume, d.startTwo, d.change, d.endBoth, d.startThird, d.withoutVolume, d.compareTimes,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	d.goOn()
	return nil
}
