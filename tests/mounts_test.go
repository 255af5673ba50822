package tests

import (
	"fmt"
	"strings"
	"testing"

	"github.com/moby/sys/mountinfo"
)

// mountsBelow are the mount points at and below dir, in the order in which they were made.
func mountsBelow(dir string) ([]string, error) {
	mounts, err := mountinfo.GetMounts(mountinfo.PrefixFilter(dir))
	if err != nil {
		return nil, err
	}
	var points []string
	for _, m := range mounts {
		points = append(points, m.Mountpoint)
	}
	return points, nil
}

// unmounted waits until nothing is mounted below a folder of the plugin's data.
func (e *engine) unmounted(t *testing.T, elem ...string) {
	t.Helper()
	dir := e.data(elem...)
	eventually(t, "mounts below "+dir, func() error {
		mounts, err := mountsBelow(dir)
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
