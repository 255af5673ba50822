package driver

import (
	"fmt"

	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/volume"
)

// podmanID is the mount ID that Podman sends, whatever the container: its constant
// pseudoCtrID (libpod/volume_internal_linux.go), the SHA-256 of "placeholder\n".
// Podman counts the containers of a volume itself and sends Mount for the first and
// Unmount for the last, so nothing tells its containers apart. The form does not
// give it away: Docker's IDs are 64 hex digits too, random ones.
const podmanID = "2f73349cfc4630255319c6c8dfc1b46a8996ace9d14d8e07563b165915918ec2"

// oneMount is what the log and Status say of a lease with podmanID.
const oneMount = "Podman mounts a volume once for all its containers: they share one workspace, which is reset when the last of them ends"

// checkIDs refuses a private workspace to a runtime that does not tell containers
// apart: the second container of the volume would get the first one's, and the
// plugin is not asked then.
func (d *Driver) checkIDs(h *handle, id string) error {
	if id != podmanID || h.opts.Mode != volume.ModePrivate || d.SharePrivate {
		return nil
	}
	return fmt.Errorf("volume %q has mode=private, but Podman mounts a volume once for all its containers, which would share the workspace: "+
		"create it with mode=shared or mode=keep (DEFAULT_OPTS=mode=shared for all), or set ALLOW_SHARED_PRIVATE=true", h.rec.Name)
}

// hasOneMount reports whether Podman has mounted one of the workspaces.
func hasOneMount(workspaces []meta.Workspace) bool {
	for _, w := range workspaces {
		if w.Leases[podmanID] > 0 {
			return true
		}
	}
	return false
}
