package commands

import (
	"context"
	"fmt"
	"strings"

	"github.com/docker/cli/cli"
	"github.com/spf13/cobra"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/cli/internal/ask"
	"github.com/helmdeck/repos/cli/internal/session"
	"github.com/helmdeck/repos/cli/internal/show"
)

type credentialRow struct {
	show.Row
	Name         string `header:"NAME"`
	Kind         string `header:"KIND"`
	Scope        string `header:"SCOPE"`
	Subject      string `header:"SUBJECT"`
	User         string `header:"USER"`
	Fingerprints string `header:"FINGERPRINTS"`
	Problem      string `header:"PROBLEM"`
}

func newCredentials(s *session.Session) *cobra.Command {
	return group("credentials", "Show, store and delete the credentials of private repositories",
		newCredentialsLs(s), newCredentialsPut(s), newCredentialsRm(s))
}

func newCredentialsLs(s *session.Session) *cobra.Command {
	var format show.Format
	cmd := &cobra.Command{
		Use:     "ls [OPTIONS]",
		Aliases: []string{"list"},
		Short:   "List the credentials, without their secrets",
		Args:    cli.NoArgs,
		RunE: calling(s, func(ctx context.Context, c *api.Client, _ []string) error {
			credentials, err := c.Credentials(ctx, api.Filter{})
			if err != nil {
				return err
			}
			rows := make([]credentialRow, len(credentials))
			for i, c := range credentials {
				rows[i] = credentialRow{
					Name: c.Name, Kind: c.Kind, Scope: short(format, c.Scope), Subject: short(format, c.Subject), User: c.User,
					Fingerprints: strings.Join(c.Fingerprints, " "), Problem: c.Problem,
				}
			}
			return show.List(s.Out(), format, []string{"Name", "Kind", "Scope", "Subject", "User", "Fingerprints", "Problem"}, rows)
		}),
	}
	format.AddTo(cmd.Flags(), "names")
	return cmd
}

func newCredentialsPut(s *session.Session) *cobra.Command {
	var p api.PutCredential
	cmd := &cobra.Command{
		Use:   "put [OPTIONS] NAME",
		Short: "Store a credential, or replace it; the secret is read from standard input",
		Long: `Store a credential, or replace the one of that name. The secret is read from standard input, or asked for on a
terminal: other users of a machine can read the arguments of commands.

The kinds are https (a password or token, with --user), bearer (a token), ssh-key (a private key without a
passphrase) and known-hosts (lines of a known_hosts file). The scope is a URL: the credential is used for all
repositories below it.`,
		Example: `  docker repos credentials put github --scope https://github.com/my-org --user x-access-token <token.txt
  docker repos credentials put deploy --kind ssh-key --scope ssh://git@github.com/my-org <deploy_key`,
		Args: cli.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			// The secret is asked for first, so that no relay waits for a user who types.
			several := p.Kind == api.SSHKey || p.Kind == api.KnownHosts
			if p.Secret, err = ask.Secret(cmd.Context(), s.Docker.In(), s.Err(), several); err != nil {
				return err
			}
			c, err := s.Client(cmd.Context())
			if err != nil {
				return err
			}
			if err := c.PutCredential(cmd.Context(), args[0], p); err != nil {
				return err
			}
			_, err = fmt.Fprintln(s.Out(), args[0])
			return err
		},
		ValidArgsFunction: completed(s, 1, credentialNames),
	}
	flags := cmd.Flags()
	flags.StringVar(&p.Kind, "kind", api.HTTPS, "https, bearer, ssh-key or known-hosts")
	flags.StringVar(&p.Scope, "scope", "", "URL of the repositories that it is for")
	flags.StringVar(&p.Subject, "subject", "", "Only for a subject (default: for every subject)")
	flags.StringVar(&p.User, "user", "", "User name, for the kind https")
	cmd.MarkFlagRequired("scope")
	cmd.RegisterFlagCompletionFunc("kind", cobra.FixedCompletions([]string{api.HTTPS, api.Bearer, api.SSHKey, api.KnownHosts}, cobra.ShellCompDirectiveNoFileComp))
	completeFlag(s, cmd, "subject", subjectNames)
	return cmd
}

func newCredentialsRm(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:     "rm NAME [NAME...]",
		Aliases: []string{"remove"},
		Short:   "Delete credentials",
		Args:    cli.RequiresMinArgs(1),
		RunE: calling(s, func(ctx context.Context, c *api.Client, args []string) error {
			return each(s, args, func(name string) error { return c.RemoveCredential(ctx, name) })
		}),
		ValidArgsFunction: completed(s, 0, credentialNames),
	}
}
