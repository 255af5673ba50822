// Package workspace makes the writable overlays that containers get, counts the
// leases that hold them, and takes them away.
//
//	clones/<subject>/<repo hash>/workspaces/<id>/
//	  manifest.json   the record, for a database that was lost
//	  upper/          what the container writes
//	  work/           the kernel's
//	  probe/          scratch for asking the kernel whether upper is in use
//	clones/<subject>/<repo hash>/cache/<uid>/
//	                  the dependency caches, bound at .git/hdcache
//	mnt/              a tmpfs
//	  <id>/           where a workspace is mounted
//
// A workspace is in one phase, the same in memory and in the database (transitions):
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
// Free means that the kernel has no mount of the upper left in any namespace. Only a
// mounted workspace has leases. One without leases is kept by its volume: it stays
// mounted, and is parked when its overlay is gone, after a restart for one. All others
// live as long as their leases.
//
// A caller may rely on this: Open, Join and Release cost the same whatever the
// size of the repository and however dirty the workspace; an upper is touched
// again only when it is free, and mounted only when it is; a kept workspace and a
// discard are on disk, with the layers that they stand on, before their record
// says that they exist; nothing is executed on, and no symlink followed in, what
// a container could have written.
package workspace
