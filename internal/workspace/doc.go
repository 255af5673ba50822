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
// A workspace is in one of three states:
//
//	       Open           last Release         free, with changes
//	(none) ────▶ live ──────────────▶ ended ───────────────────▶ discarded
//	              ▲   End: of a kept    │ free, without changes    │  │ EvictDiscard
//	              │                     ▼                          │  ▼
//	              │                   (none)                       │ (none)
//	              └────────────────────────────────────────────────┘ Restore
//
// Free is the kernel's word: no mount of the upper is left in any namespace. A
// workspace that volumes keep is live without leases, too, and then may not be
// mounted, after a restart; it is mounted again by the next Join. All others live
// as long as their leases.
//
// A caller may rely on this: Open, Join and Release cost the same whatever the
// size of the repository and however dirty the workspace; an upper is touched
// again only when it is free, and mounted only when it is; a kept workspace and a
// discard are on disk, with the layers that they stand on, before their record
// says that they exist; nothing is executed on, and no symlink followed in, what
// a container could have written.
package workspace
