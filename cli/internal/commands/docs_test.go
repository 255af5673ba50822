package commands

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/helmdeck/repos/cli/internal/session"
)

var update = flag.Bool("update", false, "write docs/reference/cli.md")

// elsewhere matches the sections of a command's page that a single page of all commands has already.
var elsewhere = regexp.MustCompile(`(?s)### (Options inherited from parent commands|SEE ALSO)\n.*?(\n###|$)`)

// formats matches the table of formats in the help of --format. The page has it once.
var formats = regexp.MustCompile(`( --format string +)Format output using a custom template:(\n +'.*)+\n +Refer to .*`)

// reference returns a page of all commands.
func reference(t *testing.T) []byte {
	t.Helper()
	docker := &cobra.Command{Use: "docker"}
	root := New(new(session.Session), "repos")
	docker.AddCommand(root)
	var pages, contents bytes.Buffer
	var add func(cmd *cobra.Command)
	add = func(cmd *cobra.Command) {
		cmd.DisableAutoGenTag = true
		cmd.InitDefaultHelpFlag()
		cmd.Flags().Lookup("help").Hidden = true
		var page bytes.Buffer
		if err := doc.GenMarkdown(cmd, &page); err != nil {
			t.Fatal(err)
		}
		text := page.String()
		for elsewhere.MatchString(text) {
			text = elsewhere.ReplaceAllString(text, "$2")
		}
		text = formats.ReplaceAllString(text, "${1}A template, or a name of a format")
		if cmd == root || !cmd.HasAvailableSubCommands() {
			fmt.Fprintf(&pages, "%s\n\n", strings.TrimSpace(text))
		}
		if !cmd.HasAvailableSubCommands() {
			fmt.Fprintf(&contents, "| [`%s`](#%s) | %s |\n", cmd.CommandPath(), strings.ReplaceAll(cmd.CommandPath(), " ", "-"), cmd.Short)
		}
		for _, c := range cmd.Commands() {
			if c.IsAvailableCommand() {
				add(c)
			}
		}
	}
	add(root)
	return fmt.Appendf(nil, `# docker repos

This page is made from the help of the commands, with `+"`make reference`"+`.

| command | what it does |
| --- | --- |
%s
The exit code is 0; 1 after an error; 125 for wrong flags; 64 for a template that can't be parsed (in a list: 1, as with
docker); 128 plus its number after a signal.

`+"`--format`"+` takes `+"`json`"+` or a [template of Go](https://docs.docker.com/go/formatting/). In a list also `+"`table`"+`, the
default, and `+"`table TEMPLATE`"+`, which has headers.

%s`, contents.Bytes(), bytes.TrimRight(pages.Bytes(), "\n"))
}

// TestDocs checks that docs/reference/cli.md has the help of the commands as they are.
func TestDocs(t *testing.T) {
	const path = "../../../docs/reference/cli.md"
	want := append(reference(t), '\n')
	if *update {
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("docs/reference/cli.md is not current: run make reference")
	}
}
