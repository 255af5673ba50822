package commands

import (
	"cmp"
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
	Allow        string `header:"ALLOW"`
	Scope        string `header:"SCOPE"`
	Subject      string `header:"SUBJECT"`
	User         string `header:"USER"`
	AppID        string `header:"APP ID"`
	Provider     string `header:"PROVIDER"`
	Fingerprints string `header:"FINGERPRINTS"`
	Expires      string `header:"EXPIRES"`
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
					Name: c.Name, Kind: c.Kind, Allow: c.Allow, Scope: short(format, c.Scope), Subject: short(format, c.Subject), User: c.User,
					AppID: c.AppID, Provider: c.Provider, Fingerprints: strings.Join(c.Fingerprints, " "), Problem: cmp.Or(c.Problem, c.Failed),
				}
				if c.ExpiresAt != nil {
					rows[i].Expires = show.In(*c.ExpiresAt)
				}
			}
			return show.List(s.Out(), format, []string{"Name", "Kind", "Allow", "Scope", "Subject", "User", "Fingerprints", "Expires", "Problem"}, rows)
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
passphrase) and known-hosts (lines of a known_hosts file). Two kinds have a provider, which gives secrets that end:
github-app (the private key of a GitHub App, with --app-id) and http (a token for the service at --url). The scope is
a URL: the credential is used for all repositories below it, to fetch and, with --allow push, to push.`,
		Example: `  docker repos credentials put github --scope https://github.com/my-org --user x-access-token <token.txt
  docker repos credentials put deploy --kind ssh-key --scope ssh://git@github.com/my-org <deploy_key
  docker repos credentials put app --kind github-app --scope https://github.com/my-org --app-id 12345 --allow push <key.pem
  docker repos credentials put broker --kind http --scope https://git.example.com --url https://broker.example.com/git <token.txt`,
		Args: cli.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			// The secret is asked for first, so that no relay waits for a user who types.
			several := p.Kind == api.SSHKey || p.Kind == api.KnownHosts || p.Kind == api.GitHubApp
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
	kinds := api.CredentialKinds()
	last := len(kinds) - 1
	flags.StringVar(&p.Kind, "kind", api.HTTPS, strings.Join(kinds[:last], ", ")+" or "+kinds[last])
	flags.StringVar(&p.Scope, "scope", "", "URL of the repositories that it is for")
	flags.StringVar(&p.Subject, "subject", "", "Only for a subject (default: for every subject)")
	flags.StringVar(&p.User, "user", "", "User name, for the kind https")
	flags.StringVar(&p.Allow, "allow", "", "fetch (default), or push, which includes fetch")
	flags.StringVar(&p.AppID, "app-id", "", "ID or client ID of the app, for the kind github-app")
	flags.StringVar(&p.API, "api", "", "URL of the API, for the kind github-app (default: that of the scope's host)")
	flags.StringVar(&p.URL, "url", "", "URL of the provider, for the kind http: https, or http on the loopback")
	cmd.MarkFlagRequired("scope")
	cmd.RegisterFlagCompletionFunc("kind", cobra.FixedCompletions(kinds, cobra.ShellCompDirectiveNoFileComp))
	cmd.RegisterFlagCompletionFunc("allow", cobra.FixedCompletions([]string{api.AllowFetch, api.AllowPush}, cobra.ShellCompDirectiveNoFileComp))
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
