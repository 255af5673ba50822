// Command demo shows on the local engine what the plugin helmdeck/repos does. It prints every
// docker command as a user would type it, with its purpose and its result. The plugin must be
// installed and enabled.
//
// It checks its claims, and exits with status 1 and the reason on stderr if a check fails. At the
// end, and after an error or an interrupt, it removes its containers and volumes. The plugin, the
// clone and the image helmdeck-demo stay.
//
//	REPO    URL of a repository; default: a generated one, served on loopback while the demo runs
//	REF     branch, tag or commit of REPO; default: the remote's HEAD
//	IMAGE   image of the containers, which needs a shell; default: helmdeck-demo, which the demo makes
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
	if len(os.Args) > 1 {
		fmt.Fprintln(os.Stderr, "demo: it takes no arguments, but REPO, REF and IMAGE from the environment: see make help")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, source{os.Getenv("REPO"), os.Getenv("REF")}, os.Getenv("IMAGE"))
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "\ndemo:", err)
		os.Exit(1)
	}
}

// run runs all steps, and always cleans up.
func run(ctx context.Context, src source, image string) (err error) {
	say(`helmdeck/repos is a Docker volume plugin. A container that mounts one of its volumes finds a private, writable,
clean checkout of a git repository there, with warm caches. The clone outlives the container and the volume.
The plugin is installed in this machine's engine. All containers below run with --network none, because they need no
network and no git credentials to get their checkout.`)
	d := &demo{docker: docker{out: os.Stdout}}
	if err := d.cleanUp(ctx); err != nil { // left by an interrupted demo
		return err
	}
	defer func() {
		// Clean up even if ctx has ended.
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
	d.nextSteps()
	return nil
}
