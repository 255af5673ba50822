package driver

import (
	"fmt"

	"github.com/helmdeck/repos/internal/volume"
)

// podmanID is the mount ID that Podman sends for every container: its constant
// pseudoCtrID (libpod/volume_internal_linux.go), the SHA-256 of "placeholder\n". Podman
// counts the containers of a volume itself, and sends Mount for the first and Unmount for
// the last, so nothing tells its containers apart. Docker's IDs have the same form: 64
// hex digits.
const podmanID = "2f73349cfc4630255319c6c8dfc1b46a8996ace9d14d8e07563b165915918ec2"

// oneMount is shown in the log and in Status for a mount with podmanID.
const oneMount = "Podman mounts a volume once for all its containers: they share one workspace, which is reset when the last of them ends"

// checkID refuses private workspaces to Podman: the second container of the volume would
// get the workspace of the first, and the plugin would not be asked.
func (d *Driver) checkID(m mountID) error {
	if m.ID != podmanID || d.config.SharePrivate {
		return nil
	}
	opts, err := d.config.Volumes.Options(m.Volume)
	if err != nil || opts.Mode != volume.ModePrivate {
		return err
	}
	return deniedError(fmt.Sprintf("volume %q has mode=private, but Podman mounts a volume once for all its containers, which would share the workspace: "+
		"create it with mode=shared or mode=keep (DEFAULT_OPTS=mode=shared for all), or set ALLOW_SHARED_PRIVATE=true", m.Volume))
}

// deniedError is an error of the driver itself, because of a setting.
type deniedError string

func (e deniedError) Error() string { return string(e) }
