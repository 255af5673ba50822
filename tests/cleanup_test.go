package tests

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/helmdeck/repos/tests/dockerd"
)

// removeLeftovers removes the engines, containers, mounts and directories of runs that were killed.
func removeLeftovers() error {
	old, err := filepath.Glob(scratchPrefix + "*")
	if err != nil {
		return err
	}
	var all error
	for _, dir := range old {
		if _, err := os.Stat("/proc/" + strings.TrimPrefix(dir, scratchPrefix)); err == nil {
			continue // the run has not ended
		}
		all = errors.Join(all, dockerd.Remove(context.Background(), dir))
	}
	return all
}
