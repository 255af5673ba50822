// Package workspace makes the writable overlays that containers get, records the
// leases that hold them, and removes them.
//
//	clones/<subject>/<repo hash>/workspaces/<id>/
//	  manifest.json   the record, for a database that was lost
//	  upper/          what the container writes
//	  work/           the kernel's work directory
//	  probe/          for the question to the kernel whether upper is in use
//	clones/<subject>/<repo hash>/cache/<uid>/
//	                  the dependency caches, bound at .git/hdcache
//	mnt/              a tmpfs
//	  <id>/           where a workspace is mounted
//
// A workspace is in one phase, the same in memory and in the database (see transitions):
//
//	       Open             last Release           free, with changes
//	making ────▶ mounted ──────────────────▶ ended ───────────────────▶ discarded
//	              │   ▲                      ▲  │ free, without changes    │  │
//	  overlay gone│   │Join       volume     │  ▼                          │  ▼ EvictDiscard
//	              ▼   │           removed    │ (none)                      │ (none)
//	             parked ─────────────────────┘                             │
//	              ▲                         Restore                        │
//	              └────────────────────────────────────────────────────────┘
//
// Free means that no mount namespace has a mount of the upper any more. Only a mounted
// workspace has leases. A workspace that its volume keeps stays mounted without leases,
// and is parked when its overlay is gone, as after a restart of the machine. All others
// live as long as their leases.
//
// A caller may rely on this:
//
//   - Open, Join and Release cost the same whatever the size of the repository and
//     the number of changes.
//   - An upper is changed or mounted again only when it is free.
//   - A kept workspace and a discard are on disk, with their layers, before their record
//     says that they exist.
//   - Nothing that a container could have written is executed, and no symlink in it is
//     followed.
package workspace
