// Command docker-repos is the docker CLI plugin "docker repos": it shows and operates what the volume
// plugin helmdeck/repos keeps. It also runs on its own, as docker-repos.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/helmdeck/repos/cli/internal/commands"
	"github.com/helmdeck/repos/cli/internal/relay"
	"github.com/helmdeck/repos/cli/internal/show"
)

func main() {
	relay.Serve()
	ctx, stop := withSignals(context.Background())
	text, code := outcome(ctx, commands.Run(ctx))
	stop()
	if text != "" {
		fmt.Fprintln(os.Stderr, show.Lines(text)) // it may quote names that users chose
	}
	os.Exit(code)
}
