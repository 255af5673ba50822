package tests

import (
	"fmt"
	"strings"
	"testing"

	"github.com/moby/sys/mountinfo"

	"github.com/helmdeck/repos/tests/wait"
)

// awaitUnmounted waits until no overlay and no bind mount of a subject's clones is left. Without a
// subject it waits until nothing but the plugin's own mounts is left below the plugin's data.
func (e *engine) awaitUnmounted(t *testing.T, subject ...string) {
	t.Helper()
	dir, own := e.Data(), []string{e.Data(), e.Data("mnt")} // mounted as long as the plugin runs
	wait.For(t, "mounts below "+dir, func() error {
		mounts, err := mountinfo.GetMounts(mountinfo.PrefixFilter(dir))
		if err != nil {
			return err
		}
		var left []string
		for _, m := range mounts {
			// The mount point does not contain the subject, but the upper directory of an overlay
			// and the root of a bind mount do.
			of := m.Mountpoint + " " + m.Root + " " + m.VFSOptions
			if m.Mountpoint == own[0] || m.Mountpoint == own[1] {
				continue
			}
			if len(subject) == 0 || strings.Contains(of, "/clones/"+subject[0]+"/") {
				left = append(left, m.Mountpoint)
			}
		}
		if len(left) > 0 {
			return fmt.Errorf("mounted: %s", strings.Join(left, " "))
		}
		return nil
	})
}
