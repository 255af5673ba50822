package tests

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/helmdeck/repos/tests/dockerd"
)

// sweep removes what killed runs left behind: their engines, containers, mounts and folders.
func sweep() error {
	old, err := filepath.Glob(scratchPrefix + "*")
	if err != nil {
		return err
	}
	var all error
	for _, dir := range old {
		if _, err := os.Stat("/proc/" + strings.TrimPrefix(dir, scratchPrefix)); err == nil {
			continue // its run goes on
		}
		all = errors.Join(all, dockerd.Remove(dir))
	}
	return all
}
