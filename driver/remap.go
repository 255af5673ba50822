package driver

import "fmt"

// Remap is whom an engine with --userns-remap maps root of its containers to. The
// plugin's files are not mapped: a container sees those as nobody's (65534) whose
// owner is below.
type Remap struct{ UID, GID uint32 }

// status is what `docker volume inspect` shows of it for a volume whose files belong
// to uid and gid.
func (r Remap) status(uid, gid uint32) string {
	text := fmt.Sprintf("the engine maps root of its containers to %d:%d (--userns-remap)", r.UID, r.GID)
	if uid < r.UID || gid < r.GID {
		text += fmt.Sprintf("; this volume's files belong to %d:%d, which no container has: create it with uid=%d and gid=%d for root, or more for other users",
			uid, gid, r.UID, r.GID)
	}
	return text
}
