package git

import (
	"context"
	"fmt"
	"strings"
)

// oldest is the oldest version of git that this package is tested with, that of Debian 12.
const oldest = "2.39"

// version asks git for its version, such as "2.47.3".
func (g *Git) version(ctx context.Context) (string, error) {
	out, err := g.Run(ctx, Command{Op: "ask for the version", question: true, Args: []string{"version"}, Dir: "/", UID: g.config.UID, GID: g.config.GID})
	return strings.TrimSpace(strings.TrimPrefix(string(out), "git version ")), err
}

// CheckVersion returns git's version, or an error if git does not run or is older than oldest.
func (g *Git) CheckVersion(ctx context.Context) (string, error) {
	version, err := g.version(ctx)
	if err == nil && older(version, oldest) {
		err = fmt.Errorf("%s is git %s, and must be %s or newer: install a newer one, or name another with -git", g.Program(), version, oldest)
	}
	return version, err
}

// older reports whether a version is older than another. It compares the first two numbers, and takes a
// version that has no numbers for new.
func older(version, than string) bool {
	var major, minor, wantMajor, wantMinor int
	if _, err := fmt.Sscanf(version, "%d.%d", &major, &minor); err != nil {
		return false
	}
	fmt.Sscanf(than, "%d.%d", &wantMajor, &wantMinor)
	return major < wantMajor || major == wantMajor && minor < wantMinor
}
