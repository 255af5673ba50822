package dockerd

import (
	"fmt"
	"os"
	"path/filepath"
)

// Choose makes the engines of this process those of the directory that the environment variable ENGINE names, as
// tests/engines/fetch makes it; without one they are the machine's. It changes PATH: call it first.
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
		return fmt.Errorf("ENGINE names no engine (tests/engines/fetch makes some): %w", err)
	}
	return os.Setenv("PATH", filepath.Join(dir, "usr/sbin")+":"+filepath.Join(dir, "usr/bin")+":"+os.Getenv("PATH"))
}
