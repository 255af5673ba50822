// Package cmd has the flags and the output of docker repos prebuild.
package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/docker/cli/cli"
	"github.com/docker/cli/cli/command"
	"github.com/docker/cli/cli/flags"
	"github.com/docker/cli/opts"
	"github.com/moby/moby/client"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/helmdeck/repos/cli/internal/environment"
	"github.com/helmdeck/repos/cli/internal/prebuild"
	"github.com/helmdeck/repos/cli/internal/session"
	"github.com/helmdeck/repos/cli/internal/show"
)

// flagSet has the flags.
type flagSet struct {
	job     prebuild.Job
	options *opts.MapOpts
	quiet   bool
	format  string

	file     string
	parallel int
	watch    bool
	interval time.Duration
	metrics  string
}

// New returns the command. complete completes its argument.
func New(s *session.Session, complete cobra.CompletionFunc) *cobra.Command {
	f := flagSet{options: opts.NewMapOpts(nil, nil)}
	cmd := &cobra.Command{
		Use:   "prebuild [OPTIONS] --image IMAGE --setup COMMAND --opt warm=PATH[,PATH] URL | prebuild [OPTIONS] --file FILE",
		Short: "Fill the warm directories of repositories before containers need them",
		Long: `Run a setup command in a container of its own, if the warm directories of a repository do not have its result yet, and
publish what it leaves there only if it succeeds. Print the argument of --mount with which containers find it, without
the path.

The options are those of the volumes that will find it, such as subject and warm_key. The container begins with the state
that any other one would find. Its command runs with sh, as the user that the options uid and gid name, or else as the
image's. What it prints goes to stderr.

The setup command runs if there is no state for the ref, uid, gid, warm_key and contents of warm_files, or if that was made
with another image, another command or without this command. If only the commit is another one, --update runs; without
it there is nothing to do.

With --file a YAML file names several repositories, each with repo, options, and image and setup, or devcontainer: true. A
line on stdout says what became of each. With --watch the command stays, and keeps all of them ready.

The exit code is that of the command that failed, in a file that of the first; 124 if it was killed because of its timeout,
and 125 after another error.`,
		Example: `docker repos prebuild --image node --setup 'npm ci' --opt warm=node_modules --opt warm_files=package-lock.json https://github.com/my-org/app
docker run --rm -w /w --mount "$(docker repos prebuild -q --image node --setup 'npm ci' --opt warm=node_modules https://github.com/my-org/app),dst=/w" node npm test
docker repos prebuild --file prebuild.yaml --watch`,
		Args: cli.RequiresMaxArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withCode(f.run(cmd, s, args))
		},
		ValidArgsFunction: complete,
	}
	set := cmd.Flags()
	set.StringVar(&f.job.Image, "image", "", "Image in which the commands run; it is pulled if the engine does not have it")
	set.StringVar(&f.job.Setup, "setup", "", "Command of sh that makes the warm directories")
	set.StringVar(&f.job.Update, "update", "", "Command of sh that brings the warm directories of another commit up to date")
	set.BoolVar(&f.job.Devcontainer, "devcontainer", false, "Take image and commands from the repository's devcontainer.json")
	set.VarP(f.options, "opt", "o", "An option of the volumes that will find the state, such as warm=node_modules")
	set.StringArrayVarP(&f.job.Env, "env", "e", nil, "A variable of the commands, as NAME=VALUE, or NAME for one of this process")
	set.StringVar(&f.job.Network, "network", "", "Network of the container, as in docker run")
	set.StringVar(&f.job.Target, "target", prebuild.DefaultTarget, "Path at which the volume is mounted and the commands begin")
	set.DurationVar(&f.job.Timeout, "timeout", prebuild.DefaultTimeout, "Kill a command that takes longer, and give up a pull of the image, or a look of the plugin, that does")
	set.StringVarP(&f.file, "file", "f", "", "File that names the repositories, instead of an argument and the flags above")
	set.IntVar(&f.parallel, "parallel", 1, "How many repositories of a file are prebuilt at the same time")
	set.BoolVar(&f.watch, "watch", false, "Stay, and keep the repositories of a file ready until SIGTERM or Ctrl-C")
	set.DurationVar(&f.interval, "interval", 5*time.Minute, "With --watch, how long to wait before looking at a repository again")
	set.StringVar(&f.metrics, "metrics", "", "With --watch, serve metrics for Prometheus at http://ADDRESS:PORT/metrics")
	set.BoolVarP(&f.quiet, "quiet", "q", false, "Only display the argument of --mount")
	set.StringVar(&f.format, "format", "", flags.InspectFormatHelp)
	return cmd
}

// The flags that are for one repository, for a file, and for --watch.
var (
	ofOne   = []string{"image", "setup", "update", "devcontainer", "opt", "env", "network", "target", "timeout"}
	ofFile  = []string{"parallel", "watch"}
	ofWatch = []string{"interval", "metrics"}
)

// check returns an error for flags that can't be together.
func (f *flagSet) check(set *pflag.FlagSet, args []string) (err error) {
	set.Visit(func(flag *pflag.Flag) {
		switch {
		case err != nil:
		case f.file == "" && slices.Contains(ofFile, flag.Name):
			err = fmt.Errorf("--%s is for --file", flag.Name)
		case !f.watch && slices.Contains(ofWatch, flag.Name):
			err = fmt.Errorf("--%s is for --watch", flag.Name)
		case f.file != "" && slices.Contains(ofOne, flag.Name):
			err = fmt.Errorf("--%s can't be with --file: each repository of the file has its own", flag.Name)
		}
	})
	switch {
	case err != nil:
		return err
	case f.file == "" && len(args) == 0:
		return errors.New("name the URL of a repository, or a file with --file")
	case f.file != "" && len(args) > 0:
		return errors.New("name either the URL of a repository, or a file with --file")
	case f.parallel < 1:
		return fmt.Errorf("--parallel %d: allowed are numbers from 1", f.parallel)
	case f.interval < time.Second:
		return fmt.Errorf("--interval %v: allowed are durations from 1s", f.interval)
	}
	return nil
}

func (f *flagSet) run(cmd *cobra.Command, s *session.Session, args []string) error {
	if err := f.check(cmd.Flags(), args); err != nil {
		return err
	}
	if f.file != "" {
		return f.many(cmd.Context(), s)
	}
	f.job.Repo, f.job.Options = args[0], f.options.GetAll()
	return f.one(cmd.Context(), s)
}

// prebuilt is what has become of a job, for --format.
type prebuilt struct {
	prebuild.Report
	// Mount is the argument of docker run's --mount with which a container finds the state, and publishes nothing in its place,
	// without the path.
	Mount string `json:"mount"`
}

func prebuiltOf(s *session.Session, r prebuild.Report) prebuilt {
	options := maps.Clone(r.Job.Options)
	options["repo"], options["publish"] = r.Job.Repo, "never"
	return prebuilt{r, environment.Argument(environment.Mount{New: true, Driver: s.Target.Plugin, Options: options})}
}

// one prebuilds the repository of the flags and prints the result.
func (f *flagSet) one(ctx context.Context, s *session.Session) error {
	if err := f.job.Check(); err != nil {
		return err
	}
	p := prebuilder(s)
	progress := show.NewProgress(s.Docker.Err())
	output := show.Whole(s.Err())
	if p.Output = output; f.quiet {
		p.Output = io.Discard
	} else {
		p.Progress = progress.Update
		p.Begin = func(r prebuild.Result, why string) error {
			progress.Done()
			fmt.Fprintln(s.Err(), show.Text(running(r, why)))
			return nil
		}
	}
	result, err := p.Run(ctx, f.job)
	progress.Done()
	if err := errors.Join(err, output.Flush()); err != nil {
		if _, ok := errors.AsType[*prebuild.ExitError](err); ok && f.quiet {
			err = fmt.Errorf("%w; run it without --quiet to see what the command prints", err)
		}
		return err
	}
	has := prebuiltOf(s, prebuild.Report{Time: time.Now(), Job: f.job, State: prebuild.Ready, Result: result})
	if f.format != "" {
		return show.Object(s.Out(), f.format, has)
	}
	_, err = fmt.Fprintln(s.Out(), has.Mount)
	return err
}

// running says which command runs, and why.
func running(r prebuild.Result, why string) string {
	return fmt.Sprintf("running the %s command at %.12s: %s", r.Did, r.Commit, why)
}

// prebuilder returns what runs jobs, without what it shows.
func prebuilder(s *session.Session) *prebuild.Prebuilder {
	return &prebuild.Prebuilder{
		Engine: s.Engine(), Plugin: plugin{s}, Driver: s.Target.Plugin, Output: io.Discard,
		Warn: func(err error) { fmt.Fprintln(s.Err(), show.Text("warning: "+show.Error(err).Error())) },
		Pull: func(ctx context.Context, image string) error { return pull(ctx, s, image) },
	}
}

// pull pulls an image, with the credentials of the docker CLI.
func pull(ctx context.Context, s *session.Session, image string) error {
	auth, err := command.RetrieveAuthTokenFromImage(s.Docker.ConfigFile(), image)
	if err != nil {
		return err
	}
	answer, err := s.Engine().ImagePull(ctx, image, client.ImagePullOptions{RegistryAuth: auth})
	if err != nil {
		return err
	}
	defer answer.Close()
	return answer.Wait(ctx)
}

// withCode gives an error of a prebuild its exit code.
func withCode(err error) error {
	if err == nil {
		return nil
	}
	code, first := 125, err
	if many, ok := errors.AsType[*manyError](err); ok {
		first = many.first
	}
	if failed, ok := errors.AsType[*prebuild.ExitError](first); ok {
		code = failed.Code
	} else if _, ok := errors.AsType[*prebuild.TimeoutError](first); ok {
		code = 124
	}
	return cli.StatusError{StatusCode: code, Status: show.Error(err).Error(), Cause: err}
}
