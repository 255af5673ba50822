package commands

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/docker/cli/cli"
	"github.com/spf13/cobra"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/cli/internal/session"
	"github.com/helmdeck/repos/cli/internal/show"
)

// letters are those of git status.
var letters = map[string]string{"added": "A", "changed": "M", "deleted": "D"}

func newStatus(s *session.Session) *cobra.Command {
	var ignored, asJSON bool
	cmd := &cobra.Command{
		Use:   "status [OPTIONS] VOLUME|WORKSPACE",
		Short: "Show what a workspace or a discard changed",
		Long: `Show what the containers of a workspace changed against the commit that it began with, committed or not: A is
added, M changed, D deleted, and ! added and named in a .gitignore. WORKSPACE is the ID of a workspace or a discard;
of a volume it is the workspace that it has now. Nothing is mounted or restored for that.

.git, package caches and warm directories are left out.`,
		Args: cli.ExactArgs(1),
		RunE: calling(s, func(ctx context.Context, c *api.Client, args []string) error {
			w, err := lookupWorkspace(ctx, c, args[0])
			if err != nil {
				return err
			}
			status, err := c.WorkspaceStatus(ctx, w.ID, ignored)
			if err != nil {
				return err
			}
			if asJSON {
				e := json.NewEncoder(s.Out())
				e.SetIndent("", "    ")
				return e.Encode(status)
			}
			return printStatus(s.Out(), w, status)
		}),
		ValidArgsFunction: completed(s, 1, workspaceOrVolume),
	}
	cmd.Flags().BoolVar(&ignored, "ignored", false, "List ignored files too")
	cmd.Flags().BoolVar(&asJSON, "json", false, "Print JSON, as the API has it")
	return cmd
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
	line("Volume", s.Volume)
	line("Commit", strings.TrimSpace(s.Commit+" "+s.Ref))
	head := s.Head
	if s.Branch != "" {
		head = strings.TrimSpace(head + " refs/heads/" + s.Branch)
	}
	line("HEAD", head)
	line("HEAD", s.HeadError)
	if s.Ahead != nil {
		line("Ahead", fmt.Sprintf("%d commits", *s.Ahead))
	}
	line("Ahead", s.AheadError)
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
