package commands

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/docker/cli/cli"
	dockerinspect "github.com/docker/cli/cli/command/inspect"
	"github.com/docker/cli/cli/flags"
	"github.com/spf13/cobra"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/cli/internal/session"
)

// kind is a kind of object that inspect shows.
type kind struct {
	name string
	// get returns the object with a name, or an *api.Error with the status 404.
	get func(ctx context.Context, c *api.Client, name string) (any, error)
	// find returns the only object that another word means. It may be nil.
	find func(ctx context.Context, s *session.Session, c *api.Client, word string) (any, error)
}

// kinds are in the order in which errors name them. A checkpoint is a workspace too.
var kinds = []kind{
	{"volume", func(ctx context.Context, c *api.Client, name string) (any, error) { return c.Volume(ctx, name) }, nil},
	{"clone", getClone, func(ctx context.Context, _ *session.Session, c *api.Client, word string) (any, error) {
		key, err := lookupClone(ctx, c, word)
		if err != nil {
			return nil, err
		}
		return c.Clone(ctx, key)
	}},
	{"lease", getLease, func(ctx context.Context, _ *session.Session, c *api.Client, word string) (any, error) {
		return findLease(ctx, c, word)
	}},
	{"checkpoint", func(ctx context.Context, c *api.Client, name string) (any, error) { return c.Checkpoint(ctx, name) },
		func(ctx context.Context, s *session.Session, c *api.Client, word string) (any, error) {
			return lookupCheckpoint(ctx, s, c, word)
		}},
	{"workspace", func(ctx context.Context, c *api.Client, name string) (any, error) { return c.Workspace(ctx, name) },
		func(ctx context.Context, s *session.Session, c *api.Client, word string) (any, error) {
			w, err := lookupWorkspace(ctx, s, c, word)
			if err != nil {
				return nil, err
			}
			return c.Workspace(ctx, w.ID)
		}},
	{"subject", func(ctx context.Context, c *api.Client, name string) (any, error) { return c.Subject(ctx, name) }, nil},
}

func newInspect(s *session.Session) *cobra.Command {
	var format, only string
	var names []string
	for _, k := range kinds {
		names = append(names, k.name)
	}
	cmd := &cobra.Command{
		Use:   "inspect [OPTIONS] NAME [NAME...]",
		Short: "Show all about clones, volumes, workspaces, checkpoints, leases and subjects",
		Long: `Show all about objects, as a JSON array.

NAME is that of a volume or a subject, the key of a clone, or the ID of a workspace, a checkpoint or a lease. If it is
nothing of these, it is a container, which means the workspace that it has, or the beginning of a key or an ID. If it
can mean different objects, the error names them, and --type chooses one.`,
		Args: cli.RequiresMinArgs(1),
		RunE: calling(s, func(ctx context.Context, c *api.Client, args []string) error {
			from := kinds
			if only != "" {
				i := slices.Index(names, only)
				if i < 0 {
					return fmt.Errorf("%q is not a type: allowed are %s", only, strings.Join(names, ", "))
				}
				from = kinds[i : i+1]
			}
			return dockerinspect.Inspect(s.Out(), args, format, func(name string) (any, []byte, error) {
				return find(ctx, s, c, from, name)
			})
		}),
		ValidArgsFunction: completed(s, 0, inspectNames),
	}
	cmd.Flags().StringVarP(&format, "format", "f", "", flags.InspectFormatHelp)
	cmd.Flags().StringVar(&only, "type", "", "Only objects of one type")
	cmd.RegisterFlagCompletionFunc("type", cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// find returns the only object of the kinds that a word means, and its JSON. Whole names come first.
func find(ctx context.Context, s *session.Session, c *api.Client, from []kind, word string) (any, []byte, error) {
	var found []any
	var names []string
	for _, k := range from {
		object, err := k.get(ctx, c, word)
		switch {
		case isStatus(err, http.StatusNotFound):
		case err != nil:
			return nil, nil, err
		case k.name == "workspace" && slices.Contains(names, "checkpoint"): // the same
		default:
			found, names = append(found, object), append(names, k.name)
		}
	}
	var failed []error
	if len(found) == 0 {
		for _, k := range from {
			if k.find == nil || k.name == "checkpoint" && len(from) > 1 { // which a workspace can be
				continue
			}
			object, err := k.find(ctx, s, c, word)
			switch {
			case is[unknownError](err):
			case err != nil:
				failed = append(failed, err)
			default:
				found, names = append(found, object), append(names, k.name)
			}
		}
	}
	switch {
	case len(found) == 1 && len(failed) == 0:
		raw, err := json.Marshal(found[0])
		return found[0], raw, err
	case len(found) > 1:
		return nil, nil, fmt.Errorf("%s can mean a %s: choose with --type", quote(word), strings.Join(names, " or a "))
	case len(failed) > 0:
		return nil, nil, errors.Join(failed...)
	}
	return nil, nil, fmt.Errorf("no such object: %s", quote(word))
}

func is[T error](err error) bool {
	_, ok := errors.AsType[T](err)
	return ok
}

// unknownError is the error of a word that names nothing.
type unknownError struct{ error }

func getClone(ctx context.Context, c *api.Client, key string) (any, error) {
	if !isKey(key) {
		return nil, &api.Error{Status: http.StatusNotFound}
	}
	return c.Clone(ctx, key)
}

func isStatus(err error, status int) bool {
	refused, ok := errors.AsType[*api.Error](err)
	return ok && refused.Status == status
}
