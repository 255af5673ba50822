package commands

import (
	"errors"
	"strings"
	"testing"

	"github.com/docker/cli/cli"
)

// TestDidYouMean checks what an unknown command, and an unknown flag, is answered with.
func TestDidYouMean(t *testing.T) {
	for _, c := range []struct {
		args, want string
		code       int
	}{
		{"lss", `unknown command: docker-repos lss. Did you mean ls?`, 0},
		{"rm", "Did you mean evict", 0},
		{"prunee", "Did you mean prune?", 0},
		{"sweep", "Did you mean prune?", 0},
		{"gc", "Did you mean prune?", 0},
		{"prune --dryrun", "unknown flag: --dryrun. Did you mean --dry-run?", 125},
		{"log", "Did you mean logs?", 0},
		{"events2", "Did you mean events?", 0},
		{"checkpoints for", `unknown command: docker-repos checkpoints for. Did you mean fork?`, 0},
		{"frobnicate", "unknown command: docker-repos frobnicate\n", 0},
		{"ls --formt json", "unknown flag: --formt. Did you mean --format?", 125},
		{"ls --sokcet x", "unknown flag: --sokcet. Did you mean --socket?", 125},
		{"events --folow", "unknown flag: --folow. Did you mean --follow?", 125},
		{"ls --frobnicate", "unknown flag: --frobnicate\n", 125},
		{"ls -z", "unknown shorthand flag: 'z' in -z\n", 125},
	} {
		got := fake{}.run(t, "", strings.Fields(c.args)...)
		status, _ := errors.AsType[cli.StatusError](got.failed)
		if got.failed == nil || !strings.Contains(got.failed.Error(), c.want) || status.StatusCode != c.code {
			t.Errorf("%s: got code %d and\n%v\nwant code %d and %q", c.args, status.StatusCode, got.failed, c.code, c.want)
		}
	}
}
