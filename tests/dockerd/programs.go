package dockerd

import (
	"fmt"
	"os"
	"path/filepath"
)

// Choose selects the engine that this process starts. If the environment variable ENGINE names a
// directory that tests/engines/fetch made, Choose puts its programs first in PATH. Otherwise the
// machine's own engine is used. Call it before all else, because it changes PATH.
func Choose() error {
	dir := os.Getenv("ENGINE")
	if dir == "" {
		return nil
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(dir, "usr/sbin/dockerd")); err != nil {
		return fmt.Errorf("ENGINE is not the directory of an engine: run tests/engines/fetch to make some: %w", err)
	}
	return os.Setenv("PATH", filepath.Join(dir, "usr/sbin")+":"+filepath.Join(dir, "usr/bin")+":"+os.Getenv("PATH"))
}
