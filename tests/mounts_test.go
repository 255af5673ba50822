package tests

import (
	"fmt"
	"strings"
	"testing"

	"github.com/helmdeck/repos/tests/dockerd"
)

// unmounted waits until nothing is mounted below a folder of the plugin's data.
func (e *engine) unmounted(t *testing.T, elem ...string) {
	t.Helper()
	dir := e.Data(elem...)
	eventually(t, "mounts below "+dir, func() error {
		mounts, err := dockerd.MountsBelow(dir)
		if err != nil {
			return err
		}
		var below []string
		for _, m := range mounts {
			if m != dir { // the propagated mount is there while the plugin runs
				below = append(below, m)
			}
		}
		if len(below) > 0 {
			return fmt.Errorf("mounted: %s", strings.Join(below, " "))
		}
		return nil
	})
}
