package commands

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/docker/cli/cli"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// farthest returns how many letters of a name may be wrong for another one to be proposed: one of a short
// name, because two would make it any other.
func farthest(name string) int { return min(max(len(name)/2, 1), 2) }

// suggesting makes cmd, and all commands below it, answer an unknown command or flag with the names that
// were probably meant.
func suggesting(cmd *cobra.Command) {
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		unknown, ok := errors.AsType[*pflag.NotExistError](err)
		if !ok || unknown.GetSpecifiedShortnames() != "" {
			return cli.FlagErrorFunc(cmd, err)
		}
		return cli.FlagErrorFunc(cmd, fmt.Errorf("%w%s", err, didYouMean("--", flagsLike(cmd, unknown.GetSpecifiedName()))))
	})
	for _, c := range cmd.Commands() {
		suggesting(c)
	}
}

// onlyCommands is the Args of a command that only has other commands: an argument is an unknown one.
func onlyCommands(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	cmd.SuggestionsMinimumDistance = farthest(args[0])
	name := fmt.Sprintf("%s %s%s", cmd.CommandPath(), quoted(args[0]), didYouMean("", cmd.SuggestionsFor(args[0])))
	return fmt.Errorf("unknown command: %s\n\nRun '%s --help' for the list of commands", name, cmd.CommandPath())
}

// flagsLike returns the names of flags of cmd that are like a name, as cobra finds commands.
func flagsLike(cmd *cobra.Command, name string) []string {
	names := &cobra.Command{SuggestionsMinimumDistance: farthest(name)}
	add := func(f *pflag.Flag) {
		if !f.Hidden {
			names.AddCommand(&cobra.Command{Use: f.Name, Run: func(*cobra.Command, []string) {}})
		}
	}
	cmd.Flags().VisitAll(add)
	cmd.InheritedFlags().VisitAll(add)
	return names.SuggestionsFor(name)
}

// didYouMean returns what an error adds to name what was probably meant; empty if there is none.
func didYouMean(prefix string, names []string) string {
	slices.Sort(names)
	names = slices.Compact(names)
	if len(names) == 0 {
		return ""
	}
	for i := range names {
		names[i] = prefix + names[i]
	}
	return ". Did you mean " + strings.Join(names, " or ") + "?"
}
