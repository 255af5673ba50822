package tests

import (
	"fmt"
	"strings"
	"testing"

	"github.com/moby/sys/mountinfo"
)

// unmounted waits until nothing of a subject is mounted, or, without one, nothing at all: no overlay of its layers and
// nothing bound of its clones.
func (e *engine) unmounted(t *testing.T, subject ...string) {
	t.Helper()
	dir, own := e.Data(), []string{e.Data(), e.Data("mnt")} // there while the plugin runs
	eventually(t, "mounts below "+dir, func() error {
		mounts, err := mountinfo.GetMounts(mountinfo.PrefixFilter(dir))
		if err != nil {
			return err
		}
		var left []string
		for _, m := range mounts {
			// The mount point does not tell whose an overlay is; its upper directory and the root of a bind do.
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
