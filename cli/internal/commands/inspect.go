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
	get  func(ctx context.Context, c *api.Client, name string) (any, error)
}

// kinds are in the order in which inspect looks for a name.
var kinds = []kind{
	{"volume", func(ctx context.Context, c *api.Client, name string) (any, error) { return c.Volume(ctx, name) }},
	{"clone", getClone},
	{"lease", func(ctx context.Context, c *api.Client, name string) (any, error) { return findLease(ctx, c, name) }},
	{"discard", func(ctx context.Context, c *api.Client, name string) (any, error) { return c.Discard(ctx, name) }},
	{"workspace", func(ctx context.Context, c *api.Client, name string) (any, error) { return c.Workspace(ctx, name) }},
	{"subject", func(ctx context.Context, c *api.Client, name string) (any, error) { return c.Subject(ctx, name) }},
}

func newInspect(s *session.Session) *cobra.Command {
	var format, only string
	var names []string
	for _, k := range kinds {
		names = append(names, k.name)
	}
	cmd := &cobra.Command{
		Use:   "inspect [OPTIONS] NAME [NAME...]",
		Short: "Show all about clones, volumes, workspaces, discards, leases and subjects",
		Long: `Show all about objects, as a JSON array.

NAME is that of a volume or a subject, the key of a clone, or the ID of a workspace, a discard or a lease. If a
name fits several objects, it is the first of: ` + strings.Join(names, ", ") + `; --type chooses another.`,
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
				return find(ctx, c, from, name)
			})
		}),
		ValidArgsFunction: completed(s, 0, inspectNames),
	}
	cmd.Flags().StringVarP(&format, "format", "f", "", flags.InspectFormatHelp)
	cmd.Flags().StringVar(&only, "type", "", "Only objects of one type")
	cmd.RegisterFlagCompletionFunc("type", cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// find returns the first object of the kinds that has the name, and its JSON.
func find(ctx context.Context, c *api.Client, kinds []kind, name string) (any, []byte, error) {
	for _, k := range kinds {
		object, err := k.get(ctx, c, name)
		if isStatus(err, http.StatusNotFound) && len(kinds) > 1 {
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		raw, err := json.Marshal(object)
		return object, raw, err
	}
	return nil, nil, fmt.Errorf("no such object: %q", name)
}

func getClone(ctx context.Context, c *api.Client, key string) (any, error) {
	if !isKey(key) {
		return nil, notFound("clone", key)
	}
	return c.Clone(ctx, key)
}

// isKey reports whether a text can be the key of a clone.
func isKey(text string) bool {
	subject, hash, ok := strings.Cut(text, "/")
	return ok && subject != "" && hash != "" && !strings.Contains(hash, "/")
}

// notFound is the error of an object that this program looks up in a list.
func notFound(kind, name string) error {
	return &api.Error{Status: http.StatusNotFound, Message: fmt.Sprintf("there is no %s %q", kind, name)}
}

func isStatus(err error, status int) bool {
	refused, ok := errors.AsType[*api.Error](err)
	return ok && refused.Status == status
}
