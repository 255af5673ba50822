package commands

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/cli/internal/session"
)

// completionTime is how long a shell waits for names, because its user has pressed a key and waits too.
const completionTime = 3 * time.Second

// plain matches the names that are completed. Users of the engine choose names, and a shell runs a name
// such as $(reboot) if the user does not look at what was completed.
var plain = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.:/@%+,-]*$`)

// lister lists what an argument or a flag can be.
type lister func(ctx context.Context, c *api.Client) ([]string, error)

// completed returns a completion of the first most arguments, or of all if most is 0. It leaves out the
// names that are arguments already.
func completed(s *session.Session, most int, list lister) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if most > 0 && len(args) >= most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
		defer cancel()
		if s.Remote() {
			s.Target.Relay = nil // its program takes longer to upload than a user waits for a key
		}
		c, err := s.Client(ctx)
		if err != nil {
			cobra.CompErrorln(err.Error())
			return nil, cobra.ShellCompDirectiveError
		}
		names, err := list(ctx, c)
		if err != nil {
			cobra.CompErrorln(err.Error())
			return nil, cobra.ShellCompDirectiveError
		}
		names = slices.DeleteFunc(names, func(name string) bool {
			return !strings.HasPrefix(name, begun) || !plain.MatchString(name) || slices.Contains(args, name)
		})
		slices.Sort(names)
		return slices.Compact(names), cobra.ShellCompDirectiveNoFileComp
	}
}

// completeFlag completes the value of a flag.
func completeFlag(s *session.Session, cmd *cobra.Command, flag string, list lister) {
	cmd.RegisterFlagCompletionFunc(flag, completed(s, 0, list))
}

// listed returns a lister of a name of each record.
func listed[T any](get func(c *api.Client, ctx context.Context, f api.Filter) ([]T, error), name func(T) string) lister {
	return func(ctx context.Context, c *api.Client) ([]string, error) {
		records, err := get(c, ctx, api.Filter{})
		names := make([]string, len(records))
		for i, r := range records {
			names[i] = name(r)
		}
		return names, err
	}
}

var (
	cloneNames        = listed((*api.Client).Clones, func(c api.Clone) string { return c.Clone })
	repoNames         = listed((*api.Client).Clones, func(c api.Clone) string { return c.Repo })
	subjectNames      = listed((*api.Client).Subjects, func(s api.Subject) string { return s.Name })
	volumeNames       = listed((*api.Client).Volumes, func(v api.Volume) string { return v.Name })
	leaseNames        = listed((*api.Client).Leases, func(l api.Lease) string { return l.ID })
	checkpointNames   = listed((*api.Client).Checkpoints, func(d api.Checkpoint) string { return d.ID })
	checkpointVolumes = listed((*api.Client).Checkpoints, func(d api.Checkpoint) string { return d.Volume })
	workspaceNames    = listed((*api.Client).Workspaces, func(w api.Workspace) string { return w.ID })
	credentialNames   = listed((*api.Client).Credentials, func(c api.Credential) string { return c.Name })
)

// checkpointWords lists the IDs and the names of checkpoints.
func checkpointWords(ctx context.Context, c *api.Client) (words []string, err error) {
	checkpoints, err := c.Checkpoints(ctx, api.Filter{})
	for _, d := range checkpoints {
		words = append(words, d.ID, d.Name)
	}
	return words, err
}

// inspectNames lists all that inspect can show.
func inspectNames(ctx context.Context, c *api.Client) (all []string, err error) {
	for _, list := range []lister{cloneNames, subjectNames, volumeNames, leaseNames, checkpointNames, workspaceNames} {
		names, err := list(ctx, c)
		if err != nil {
			return nil, err
		}
		all = append(all, names...)
	}
	return all, nil
}

// workspaceOrVolume returns a lister of what lookupWorkspace finds by a whole name.
func workspaceOrVolume(s *session.Session) lister {
	return func(ctx context.Context, c *api.Client) ([]string, error) {
		names, err := volumeNames(ctx, c)
		if err != nil {
			return nil, err
		}
		if f, err := s.Containers(ctx); err == nil && f != nil {
			running, _ := f.Running(ctx)
			for _, c := range running {
				names = append(names, c.Name)
			}
		}
		ids, err := workspaceNames(ctx, c)
		return append(names, ids...), err
	}
}
