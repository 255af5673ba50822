// Package workspace makes the writable overlays that containers get, records the
// leases that hold them, and removes them.
//
// It decides which workspace a lease gets, and when a workspace is mounted, ends, becomes a
// discard or goes. Package mounter does what it decides, on the disk and in the kernel, and
// package upper says what a container changed.
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
