package commands

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"

	"github.com/docker/cli/cli"
	"github.com/docker/cli/opts"
	"github.com/spf13/cobra"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/cli/internal/environment"
	"github.com/helmdeck/repos/cli/internal/session"
	"github.com/helmdeck/repos/cli/internal/show"
)

func newEnv(s *session.Session) *cobra.Command {
	m := environment.Mount{Driver: s.Target.Plugin}
	options := opts.NewMapOpts(nil, nil)
	var repo, ref, form string
	cmd := &cobra.Command{
		Use:   "env [OPTIONS] --target PATH [VOLUME]",
		Short: "Print what mounts a volume, and leads tools to its caches",
		Long: `Print what mounts a volume at a path, and the environment variables that lead package managers to its
caches: as flags for docker run, a fragment for compose, or exports for a shell in the container.

VOLUME is a volume that exists. With --repo it is one that is made by its first use; without a name it is an
anonymous one. If docker has a volume of that name, it takes that one as it is, whatever --repo and --opt say. A volume with
cache=off has no variables.

The flags for docker run are quoted as a shell needs it. A shell leaves the quotes in what it substitutes, so
"docker run $(docker repos env ...)" works if all names, paths and options consist of letters, digits and
_@%+=:./- characters. With eval it always works.`,
		Example: `docker run --rm -it $(docker repos env --target /w --repo https://github.com/octocat/Hello-World) debian
eval "docker run --rm -it $(docker repos env --target /w --repo https://github.com/octocat/Hello-World --opt warm=node_modules,dist) debian"
docker repos env --target /w --for compose src >>compose.yaml
eval "$(docker repos env --target /w --for shell src)"`,
		Args: cli.RequiresMaxArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			write, ok := environment.Forms[form]
			switch {
			case !ok:
				return fmt.Errorf("--for %s: allowed are run, compose and shell", form)
			case m.Target == "":
				return errors.New("--target is missing: name the path at which the volume is mounted")
			case !path.IsAbs(m.Target) || path.Clean(m.Target) != m.Target || m.Target == "/":
				return fmt.Errorf("--target %q: allowed is an absolute path such as /w", m.Target)
			case cmd.Flags().Changed("service") && form != "compose":
				return errors.New("--service is for --for compose")
			case len(args) == 0 && repo == "":
				return errors.New("name a VOLUME, or a repository with --repo")
			case repo == "" && (ref != "" || len(options.GetAll()) > 0):
				return errors.New("--ref and --opt are for a new volume: name its repository with --repo")
			}
			if len(args) > 0 {
				m.Volume = args[0]
			}
			m.Driver = s.Target.Plugin
			if repo != "" {
				m.New, m.Options = true, options.GetAll()
				for name, value := range map[string]string{"repo": repo, "ref": ref} {
					if value != "" {
						m.Options[name] = value
					}
				}
			} else {
				c, err := s.Client(cmd.Context())
				if err != nil {
					return err
				}
				v, err := c.Volume(cmd.Context(), m.Volume)
				if err != nil {
					return show.Error(err)
				}
				m.Options = v.Options
			}
			if m.Options["cache"] == "off" {
				fmt.Fprintln(s.Err(), "The volume has cache=off, so there are no variables.")
			} else {
				m.Variables = api.CacheVariables(m.Target)
			}
			_, err := fmt.Fprint(s.Out(), write(m))
			return err
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&m.Target, "target", "", "Path at which the volume is mounted")
	flags.StringVar(&form, "for", "run", "What to print: run, compose or shell")
	flags.StringVar(&repo, "repo", "", "URL of the repository of a new volume")
	flags.StringVar(&ref, "ref", "", "Branch, tag or commit of a new volume")
	flags.VarP(options, "opt", "o", "Other options of a new volume, such as subject=team-a")
	flags.StringVar(&m.Service, "service", "work", "Name of the service in a compose fragment")
	cmd.ValidArgsFunction = completed(s, 1, volumeNames)
	completeFlag(s, cmd, "repo", repoNames)
	cmd.RegisterFlagCompletionFunc("for", cobra.FixedCompletions(slices.Sorted(maps.Keys(environment.Forms)), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}
