package commands

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/docker/cli/cli"
	"github.com/spf13/cobra"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/cli/internal/ask"
	"github.com/helmdeck/repos/cli/internal/session"
	"github.com/helmdeck/repos/cli/internal/show"
)

// freeing has the flags of commands that evict.
type freeing struct {
	force   bool // no question
	discard bool
}

func (f *freeing) addTo(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&f.force, "force", "f", false, "Do not prompt for confirmation")
	cmd.Flags().BoolVar(&f.discard, "discard", false, "Also discard what is in the way: checkpoints, and workspaces that no container has mounted")
}

// question returns the text of the prompt about what.
func (f freeing) question(what string) string {
	text := "WARNING! This will evict " + show.Text(what) + ". The next mount clones again."
	if f.discard {
		text += "\nIt will also delete the checkpoints, and the workspaces that no container has mounted."
	}
	return text
}

func newEvict(s *session.Session) *cobra.Command {
	var f freeing
	var subject string
	cmd := &cobra.Command{
		Use:        "evict [OPTIONS] [CLONE...]",
		SuggestFor: []string{"rm", "remove", "delete"},
		Short:      "Evict clones: their next mounts clone again",
		Long: `Evict clones, or all clones of a subject that nobody uses.

CLONE is the key of a clone, as "ls" shows it, the beginning of one or of its second part, or the URL of a repository
that has one clone.

The plugin refuses a clone that "ls" does not show as free, and says what is in the way. The only exception is one that
is being fetched or built: that work ends, and the mounts that wait for it fail. --subject leaves such a clone, and says
which clones it leaves. Clones are evicted one after another, also with --discard; "subjects fresh" takes all of a
subject in one step.`,
		RunE: calling(s, func(ctx context.Context, c *api.Client, args []string) error {
			keys, err := f.keys(ctx, s, c, args, subject)
			if err != nil || len(keys) == 0 {
				return err
			}
			if !f.force {
				what := fmt.Sprintf("%d clones", len(keys))
				if len(keys) == 1 {
					what = "the clone " + keys[0]
				}
				if err := ask.Confirm(ctx, s.Docker.In(), s.Out(), f.question(what), "--force"); err != nil {
					return err
				}
			}
			var freed int64
			err = each(s, keys, func(key string) error {
				result, err := f.evict(ctx, c, key)
				freed += result.Freed
				return err
			})
			_, printed := fmt.Fprintln(s.Out(), "Total reclaimed space:", show.Bytes(freed))
			return errors.Join(err, printed)
		}),
		ValidArgsFunction: completed(s, 0, cloneNames),
	}
	f.addTo(cmd)
	cmd.Flags().StringVar(&subject, "subject", "", "Evict all clones of a subject that nobody uses")
	completeFlag(s, cmd, "subject", subjectNames)
	return cmd
}

// keys returns the clones to evict: those of args, or those of a subject that are free.
func (f freeing) keys(ctx context.Context, s *session.Session, c *api.Client, args []string, subject string) ([]string, error) {
	switch {
	case (len(args) > 0) == (subject != ""):
		return nil, cli.StatusError{StatusCode: 125, Status: "name either clones or --subject"}
	case subject == "":
		keys := make([]string, len(args))
		for i, word := range args {
			key, err := lookupClone(ctx, c, word)
			if err != nil {
				return nil, err
			}
			keys[i] = key
		}
		return keys, nil
	}
	clones, err := c.Clones(ctx, api.Filter{Subject: subject})
	if err != nil {
		return nil, err
	}
	var keys []string
	var held strings.Builder
	for _, clone := range clones {
		if clone.Free || f.discard {
			keys = append(keys, clone.Clone)
		} else {
			fmt.Fprintf(&held, "\n  %s: %s", clone.Clone, show.Text(clone.Held))
		}
	}
	switch {
	case len(clones) == 0:
		return nil, fmt.Errorf("the subject %q has no clone", subject)
	case len(keys) == 0:
		return nil, fmt.Errorf("the subject %q has no clone that can be evicted:%s\n%s", subject, held.String(), inTheWay)
	case held.Len() > 0:
		fmt.Fprintf(s.Err(), "These clones stay:%s\n%s\n", held.String(), inTheWay)
	}
	return keys, nil
}

// inTheWay is what an operator can do about a clone that is held.
const inTheWay = "end its containers (docker repos leases ls), remove its checkpoints (docker repos checkpoints ls), or evict with --discard what no container has mounted"

func (f freeing) evict(ctx context.Context, c *api.Client, key string) (api.Freed, error) {
	if f.discard {
		return c.FreshClone(ctx, key, true)
	}
	freed, err := c.EvictClone(ctx, key)
	if refused, ok := errors.AsType[*api.Error](err); ok && refused.Status == http.StatusConflict && len(refused.Obstacles) == 0 {
		err = fmt.Errorf("%w\n%s", err, inTheWay)
	}
	return freed, err
}
