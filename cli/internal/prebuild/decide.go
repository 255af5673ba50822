package prebuild

import (
	"fmt"

	"github.com/helmdeck/repos/api"
)

// What a prebuild does.
const (
	Nothing = "nothing" // the states are there
	Update  = "update"  // the update command
	Setup   = "setup"   // the setup command
)

// decide returns what to do about the states of a repository, and why. It is an error if no command could make one.
func decide(found api.WarmResult, label string, updates bool) (action, why string, err error) {
	for _, s := range found.States {
		if s.LeftOut {
			return "", "", fmt.Errorf("%s can't be a warm directory at %.12s: %s. Nothing was run", s.Path, found.Commit, s.Why)
		}
	}
	moved := ""
	for _, s := range found.States {
		switch {
		case !s.Exact:
			return Setup, fmt.Sprintf("%s has no state of its own: %s", s.Path, s.Why), nil
		case s.Label != label:
			return Setup, fmt.Sprintf("the state of %s is not that of this image and these commands", s.Path), nil
		case s.Commit != found.Commit:
			moved = fmt.Sprintf("the state of %s is that of %.12s", s.Path, s.Commit)
		}
	}
	if moved != "" && updates {
		return Update, moved, nil
	}
	return Nothing, "", nil
}
