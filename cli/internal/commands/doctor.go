package commands

import (
	"fmt"
	"time"

	"github.com/docker/cli/cli"
	"github.com/spf13/cobra"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/cli/internal/dial"
	"github.com/helmdeck/repos/cli/internal/doctor"
	"github.com/helmdeck/repos/cli/internal/session"
	"github.com/helmdeck/repos/cli/internal/show"
)

type checkRow struct {
	show.Row
	Check  string `header:"CHECK"`
	Status string `header:"STATUS"`
	Detail string `header:"DETAIL"`
	Name   string `header:"NAME"`
	Target string `header:"TARGET"`
	Text   string `header:"TEXT"`
	Remedy string `header:"REMEDY"`
}

func newDoctor(s *session.Session) *cobra.Command {
	var format show.Format
	var remotes bool
	cmd := &cobra.Command{
		Use:   "doctor [OPTIONS]",
		Short: "Find out what is wrong, and what to do",
		Long: `Check engine, plugin, kernel, disk, clocks, settings and credentials, and whether the host of each repository
answers and accepts its credential. There is one line for each check: what was found and, if it is not ok, what
to do.

The exit code is 1 if a check failed. A warning says that something works, but less well than it could.`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p := doctor.Patient{
				Host: s.Target.Host, Plugin: s.Target.Plugin, Socket: s.Target.Socket != "",
				Connect: s.Client, Now: time.Now, Remotes: remotes,
			}
			if way, err := s.Way(cmd.Context()); err == nil && dial.IsService(way) {
				p.Socket = true
			}
			if !p.Socket {
				p.Engine, p.Host = s.Engine(), s.Docker.DockerEndpoint().Host
			}
			checks := p.Examine(cmd.Context())
			if err := cmd.Context().Err(); err != nil {
				return err
			}
			if err := show.List(s.Out(), format, []string{"Check", "Status", "Detail"}, checkRows(checks)); err != nil {
				return err
			}
			return verdict(checks)
		},
	}
	format.AddTo(cmd.Flags(), "")
	cmd.Flags().BoolVar(&remotes, "remotes", true, "Ask the hosts of repositories")
	return cmd
}

func checkRows(checks []api.Check) []checkRow {
	rows := make([]checkRow, len(checks))
	for i, c := range checks {
		rows[i] = checkRow{Check: c.Name, Status: c.Status, Detail: c.Text, Name: c.Name, Target: c.Target, Text: c.Text, Remedy: c.Remedy}
		if c.Target != "" {
			rows[i].Check += " " + c.Target
		}
		if c.Remedy != "" {
			rows[i].Detail += "; to do: " + c.Remedy
		}
	}
	return rows
}

// verdict returns an error if a check failed.
func verdict(checks []api.Check) error {
	failed := 0
	for _, c := range checks {
		if c.Status == api.Failed {
			failed++
		}
	}
	switch failed {
	case 0:
		return nil
	case 1:
		return fmt.Errorf("1 of %d checks failed", len(checks))
	}
	return fmt.Errorf("%d of %d checks failed", failed, len(checks))
}
