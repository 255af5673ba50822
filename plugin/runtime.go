package main

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"

	"github.com/moby/sys/mountinfo"

	"github.com/helmdeck/repos/driver"
)

// contextText is an SELinux context with one level and no categories: user, role,
// type and level. It becomes a mount option, so it has no comma, quote or space.
var contextText = regexp.MustCompile(`^[A-Za-z0-9_]{1,60}:[A-Za-z0-9_]{1,60}:[A-Za-z0-9_]{1,60}:s[0-9]{1,2}$`)

// checkContext checks the setting SELINUX_CONTEXT; empty means none.
func checkContext(text string) error {
	if text != "" && !contextText.MatchString(text) {
		return errors.New("is not an SELinux context; allowed is user:role:type:level without categories, such as system_u:object_r:container_file_t:s0")
	}
	return nil
}

// remappedRoot matches the end of the path of a plugin's propagated mount with
// --userns-remap: the engine has a data directory for each range of IDs (moby:
// daemon/daemon_unix.go, setupDaemonRoot).
var remappedRoot = regexp.MustCompile(`/([0-9]+)\.([0-9]+)/plugins/[0-9a-f]{64}/propagated-mount$`)

// findRemap returns the IDs to which an engine with --userns-remap maps its containers'
// root, or nil without remapping. It reads them from the path of the mounted data
// directory. The plugin itself is never remapped.
func findRemap(data string) (*driver.Remap, error) {
	mounts, err := mountinfo.GetMounts(mountinfo.SingleEntryFilter(data))
	if err != nil {
		return nil, fmt.Errorf("find what is mounted at %s: %w", data, err)
	}
	if len(mounts) == 0 {
		return nil, nil
	}
	return parseRemap(mounts[len(mounts)-1].Root), nil
}

func parseRemap(path string) *driver.Remap {
	found := remappedRoot.FindStringSubmatch(path)
	if found == nil {
		return nil
	}
	uid, uidErr := strconv.ParseUint(found[1], 10, 32)
	gid, gidErr := strconv.ParseUint(found[2], 10, 32)
	if uidErr != nil || gidErr != nil {
		return nil
	}
	return &driver.Remap{UID: uint32(uid), GID: uint32(gid)}
}
