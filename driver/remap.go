package driver

import "fmt"

// Remap has the IDs to which an engine with --userns-remap maps root of its containers.
// The plugin's files are not mapped: a container sees nobody (65534) as the owner of files
// whose owner has a lower ID.
type Remap struct{ UID, GID uint32 }

// status describes the mapping in Status, for a volume whose files belong to uid and gid.
func (r Remap) status(uid, gid uint32) string {
	text := fmt.Sprintf("the engine maps root of its containers to %d:%d (--userns-remap)", r.UID, r.GID)
	if uid < r.UID || gid < r.GID {
		text += fmt.Sprintf("; this volume's files belong to %d:%d, which no container has: create it with uid=%d and gid=%d for root, or more for other users",
			uid, gid, r.UID, r.GID)
	}
	return text
}
