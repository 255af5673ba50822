package git

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/helmdeck/repos/internal/git/giterror"
)

// What is the kind of an Event.
type What int

const (
	// RanCommand is one run of git, or of a job of this program for a repository. Via names
	// it: see CommandNames.
	RanCommand What = iota
	// AskedRemote is a question to a remote for its refs, with all its tries. Via is
	// ThisProcess or ThroughGit.
	AskedRemote
	// FetchedRemote is a fetch of git objects, with all its tries. Via is ThisProcess or
	// ThroughGit.
	FetchedRemote
)

// Who talks to a remote.
const (
	ThisProcess = "http"
	ThroughGit  = "git"
)

// Event says what was done for a repository, and how it ended.
type Event struct {
	What What
	Via  string
	Kind giterror.Kind
	Took time.Duration // with the time in which it waited for its turn, unless it is a command
}

// commandNames are the subcommands that this process runs; a job runs others.
var commandNames = []string{
	"cat-file", "check-ignore", "clone", "config", "fetch", "fsck", "index-pack", "ls-remote", "ls-tree", "pack-objects", "pack-refs",
	"push", "remote-http", "remote-https", "repack", "rev-list", "rev-parse", "update-ref", "version",
}

const (
	jobName   = "job"   // a Command with a Judge
	otherName = "other" // a subcommand that is not in commandNames
)

// CommandNames lists all values of Event.Via for RanCommand: few, whatever repositories have.
func CommandNames() []string { return append(slices.Clone(commandNames), jobName, otherName) }

// name returns the command's name for events.
func (c Command) name() string {
	if c.Judge != nil {
		return jobName
	}
	for i := 0; i < len(c.Args); i++ {
		switch arg := c.Args[i]; {
		case arg == "-c":
			i++
		case strings.HasPrefix(arg, "-"):
		case slices.Contains(commandNames, arg):
			return arg
		default:
			return otherName
		}
	}
	return otherName
}

// observe reports an event that began at a time and ended with err.
func (g *Git) observe(what What, via string, began time.Time, err error) {
	if g.config.Observe == nil {
		return
	}
	kind := giterror.KindOf(err)
	switch {
	case err == nil:
		kind = giterror.KindOK
	case what != RanCommand && errors.Is(err, ErrThroughGit):
		kind = giterror.KindFallback
	case kind != "":
	case errors.Is(err, context.Canceled):
		kind = giterror.KindCanceled
	case errors.Is(err, context.DeadlineExceeded):
		kind = giterror.KindTimeout
	default:
		kind = giterror.KindOther
	}
	g.config.Observe(Event{What: what, Via: via, Kind: kind, Took: time.Since(began)})
}

// observeRun reports a run of a command. A question to a store that git answers with its
// exit code has not failed.
func (g *Git) observeRun(c Command, began time.Time, err error) {
	if c.question && !c.remote && exitCode(err) > 0 && giterror.KindOf(err) == giterror.KindOther {
		err = nil
	}
	g.observe(RanCommand, c.name(), began, err)
}
