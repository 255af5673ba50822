package commands

import (
	"bufio"
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/docker/cli/cli"
	"github.com/docker/cli/cli/flags"
	"github.com/spf13/cobra"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/cli/internal/session"
	"github.com/helmdeck/repos/cli/internal/show"
)

// letters are those of git status.
var letters = map[string]string{"added": "A", "changed": "M", "deleted": "D"}

func newStatus(s *session.Session) *cobra.Command {
	var ignored bool
	var format string
	cmd := &cobra.Command{
		Use:   "status [OPTIONS] CONTAINER|VOLUME|ID[..CONTAINER|VOLUME|ID]",
		Short: "Show what a workspace or a checkpoint changed, or in what two differ",
		Long: `Show what the containers of a workspace changed against the commit that it began with, committed or not: A is
added, M changed, D deleted, and ! added and named in a .gitignore. Nothing is mounted for that.

` + namesWorkspace + `

With A..B, the changes are those from the files of A to those of B, and all else is of B. Both are workspaces or
checkpoints of one repository and subject.

.git, package caches and warm directories are left out.

Ahead are the commits that the workspace did not begin with and that the remote lacks: on the volume's ref, on the branches
that it had when the workspace was made, and on one with the name of the branch that is checked out. The remote is asked if
there may be any; if it does not answer within 5 seconds, what it had last counts, and the line says of when that is. What the
container notes of the remote (origin/main) does not count.`,
		Example: `  docker repos status my-container
  docker repos status src
  docker repos status 0123
  docker repos status try-1..try-2`,
		Args: cli.ExactArgs(1),
		RunE: calling(s, func(ctx context.Context, c *api.Client, args []string) error {
			w, from, err := lookupCompared(ctx, s, c, args[0])
			if err != nil {
				return err
			}
			status, err := c.WorkspaceStatus(ctx, w.ID, api.Compare{From: from.ID, Ignored: ignored})
			if err != nil {
				return err
			}
			if format != "" {
				return show.Object(s.Out(), format, status)
			}
			return printStatus(s.Out(), w, status)
		}),
		ValidArgsFunction: completedPair(s),
	}
	cmd.Flags().BoolVar(&ignored, "ignored", false, "List ignored files too")
	cmd.Flags().StringVar(&format, "format", "", flags.InspectFormatHelp)
	return cmd
}

// asOf says when the remote last said what it has; nothing if it says so now.
func asOf(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return " (by what the remote had " + show.Ago(t) + ")"
}

// printStatus prints the status of a workspace for people.
func printStatus(to io.Writer, of api.Workspace, s api.WorkspaceStatus) error {
	w := bufio.NewWriter(to)
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(w, "%-11s %s\n", name+":", show.Text(value))
		}
	}
	line("Workspace", s.ID+" ("+s.Phase+")")
	line("From", s.From)
	line("Volume", s.Volume)
	line("Commit", strings.TrimSpace(cmp.Or(s.Commit, "none yet")+" "+s.Ref))
	head := s.Head
	if s.Branch != "" {
		head = strings.TrimSpace(head + " refs/heads/" + s.Branch)
	}
	line("HEAD", head)
	line("HEAD", s.HeadError)
	if s.Ahead != nil {
		line("Ahead", counted(*s.Ahead, "commit")+asOf(s.AheadAsOf))
	}
	line("Ahead", s.AheadError)
	for _, t := range s.Worktrees {
		ahead, at := "an unknown number of commits", "detached at "+t.Head
		if t.Ahead != nil {
			ahead = counted(*t.Ahead, "commit")
		}
		if t.Branch != "" {
			at = "refs/heads/" + t.Branch
		}
		line("Worktree", fmt.Sprintf("%s: %s that the remote lacks, %s", t.Name, ahead, at))
	}
	line("Worktrees", s.WorktreesError)
	line("Changes", fmt.Sprintf("%d added, %d changed, %d deleted, %d ignored", s.Added, s.Changed, s.Deleted, s.Ignored))
	if of.ForeignUID != nil {
		line("Owner", fmt.Sprintf("files of uid %d, and the volume has uid=%d: git may say \"dubious ownership\" (options uid and gid)", *of.ForeignUID, of.UID))
	}
	for _, c := range s.Changes {
		letter := letters[c.Kind]
		if c.Ignored {
			letter = "!"
		}
		fmt.Fprintf(w, "%-1s %s\n", letter, pathText(c.Path, c.RawPath))
	}
	for _, l := range s.LeftOut {
		fmt.Fprintf(w, "? %s: %s\n", pathText(l.Path, l.RawPath), show.Text(l.Why))
	}
	if s.Truncated != "" {
		fmt.Fprintf(w, "… %s\n", show.Text(s.Truncated))
	}
	return w.Flush()
}

// pathText returns a path on one line. raw are its bytes in base64, if it is not UTF-8.
func pathText(path, raw string) string {
	if data, err := base64.StdEncoding.DecodeString(raw); raw != "" && err == nil {
		path = string(data)
	}
	return show.Text(path)
}
