package commands

import (
	"context"
	"errors"

	"github.com/docker/cli/cli"
	"github.com/docker/cli/cli-plugins/metadata"
	"github.com/docker/cli/cli-plugins/plugin"
	"github.com/docker/cli/cli/command"
	"github.com/spf13/cobra"

	"github.com/helmdeck/repos/cli/internal/dial"
	prebuild "github.com/helmdeck/repos/cli/internal/prebuild/cmd"
	"github.com/helmdeck/repos/cli/internal/relay"
	"github.com/helmdeck/repos/cli/internal/session"
)

// version is set when the program is linked.
var version = "dev"

// summary is what docker lists beside the name of the command.
const summary = "Show and operate what the volume plugin helmdeck/repos keeps"

// Run runs the command that the process's arguments name. It returns when the command has ended and
// its connections are closed.
func Run(ctx context.Context) (err error) {
	docker, err := command.NewDockerCli(command.WithBaseContext(ctx))
	if err != nil {
		return err
	}
	s := &session.Session{Docker: docker, Version: version, Target: dial.Target{Relay: relay.Open}}
	defer func() { err = errors.Join(err, s.Close()) }()
	if plugin.RunningStandalone() {
		return alone(ctx, docker, s)
	}
	root := New(s, "repos")
	root.PersistentPreRunE = func(cmd *cobra.Command, args []string) error {
		// RunPlugin runs commands with a context of its own, which a signal does not end.
		cmd.SetContext(ctx)
		return plugin.PersistentPreRunE(cmd, args)
	}
	return plugin.RunPlugin(docker, root, metadata.Metadata{
		SchemaVersion: "0.1.0", Vendor: "helmdeck", Version: version,
		URL: "https://github.com/helmdeck/repos", ShortDescription: summary,
	})
}

// alone runs the program as docker-repos, with the global flags of docker.
func alone(ctx context.Context, docker *command.DockerCli, s *session.Session) error {
	root := New(s, "docker-repos")
	opts, flags := cli.SetupPluginRootCommand(root)
	root.SilenceUsage, root.SilenceErrors = true, true
	root.SetIn(docker.In())
	root.SetOut(docker.Out())
	root.SetErr(docker.Err())
	top := cli.NewTopLevelCommand(root, docker, opts, flags)
	root.PersistentPreRunE = func(*cobra.Command, []string) error { return top.Initialize() }
	cmd, args, err := top.HandleGlobalFlags()
	if err != nil {
		return err
	}
	cmd.SetArgs(args)
	return cmd.ExecuteContext(ctx)
}

// New returns the root command with all others below it.
func New(s *session.Session, name string) *cobra.Command {
	root := &cobra.Command{
		Use:              name,
		Short:            summary,
		Args:             onlyCommands,
		RunE:             func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		TraverseChildren: true,
	}
	root.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)
	flags := root.PersistentFlags()
	flags.StringVar(&s.Target.Socket, "socket", "", "Path of the plugin's admin socket (default: that of the engine's plugin, or else of this machine's service)")
	flags.StringVar(&s.Target.Plugin, "plugin", dial.DefaultPlugin, "Name or ID of the plugin")
	root.AddCommand(
		newLs(s), newPs(s), newInspect(s), newStatus(s), newDiff(s), newConflicts(s), newExport(s), newPush(s), newCheckpoint(s), newRewind(s), newDf(s), newWarm(s), prebuild.New(s, completed(s, 1, repoNames)), newRefresh(s), newEvict(s), newPrune(s), newCache(s), newSubjects(s), newLeases(s),
		newCheckpoints(s), newCredentials(s), newLogs(s), newEvents(s), newAudit(s), newDoctor(s), newEnv(s), newVersion(s),
	)
	terse(root)
	suggesting(root)
	return root
}

// terse makes cobra leave usage lines as they are, with docker's words.
func terse(cmd *cobra.Command) {
	cmd.DisableFlagsInUseLine = true
	for _, c := range cmd.Commands() {
		terse(c)
	}
}
