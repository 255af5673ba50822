// Package workspace makes the writable overlays that containers get, records the
// leases that hold them, and removes them.
//
// It decides which workspace a lease gets, and when a workspace is mounted, ends, becomes a
// checkpoint or goes. Package mounter does what it decides, on the disk and in the kernel, and
// package upper says what a container changed.
//
// A workspace is in one phase, the same in memory and in the database (see meta.CheckTransition):
//
//	       Open             last Release           free, with changes
//	making ────▶ mounted ──────────────────▶ ended ───────────────────▶ checkpoint
//	              │   ▲                      ▲  │ free, without changes       │
//	  overlay gone│   │Join       volume     │  ▼                             ▼ EvictCheckpoint
//	              ▼   │           removed    │ (none)                     (none)
//	             parked ─────────────────────┘
//
// Free means that no mount namespace has a mount of the upper any more. Only a mounted
// workspace has leases. A workspace that its volume keeps stays mounted without leases,
// and is parked when its overlay is gone, as after a restart of the machine; it ends with
// its volume. All others live as long as their leases.
//
// A caller may rely on this:
//
//   - Open, Join and Release cost the same whatever the size of the repository and
//     the number of changes.
//   - An upper is changed or mounted again only when it is free.
//   - A kept workspace and a checkpoint are on disk, with their layers, before their record
//     says that they exist.
//   - Nothing that a container could have written is executed, and no symlink in it is
//     followed.
//
// # Modes
//
// The modes shared and keep decide who gets the same workspace. A Mount of such a volume looks for the workspace under
// a lock of the volume, which is held over mounts and commits, never over the network. If there is none, the Mount
// prepares a checkout without the lock, and looks again before it makes one, so that concurrent first Mounts make one
// workspace.
//
// A kept workspace is never mounted volatile. If its overlay is gone after a restart of the plugin or the host, it is
// parked, and the next Mount mounts it again, on the layers of its record and with the same metacopy. A kept
// workspace, or one that was shared when its mount vanished, may still be in use by a detached container: the Mount
// asks the kernel first, and fails if it is in use for HeldWait, and until 30 s after the plugin's start, because two
// overlays on one upper corrupt it, and two workspaces are not shared.
//
// The database refuses a record with leases in any phase but mounted. The manifest in a workspace's directory is a
// copy of its record, written again when the phase changes and (unsynced) with the leases: a lost database costs
// neither kept workspaces nor checkpoints. At the start the mount table decides what is mounted.
//
// # Checkpoints
//
// Each workspace has one reaper, from its end until nobody uses it. It looks for one change in the upper and stops at
// the first (package upper). If there is one, the upper stays where it is, as another phase of the same record, on the
// same layers. A volatile upper is worth nothing after a crash, so everything is written to disk (one syncfs for all
// that wait) before the record says that the checkpoint exists; an upper of an earlier boot that was not written is
// garbage.
//
// A checkpoint never changes again. So it is a layer: a workspace of a volume with the option from is an overlay with an
// empty upper on the checkpoint's upper, and on all that this stands on, with the features of overlayfs that these were
// written with. That costs the same whatever it has, and as many as want to begin with it at once. The record of such a
// workspace has the IDs of all checkpoints below it, so a checkpoint is in use while a record names it, and there is no other
// count. A checkpoint of such a workspace has what that changed alone, at no cost, and can be begun with in turn. What
// overlayfs shows of the top directory is that of the topmost upper, so its owner, mode, ACLs and times are copied. git's
// locks of processes that were ended are removed through the mount. Nothing is carried over from its warm paths: a part of
// what they have is in checkpoints, on other layers than those of the head.
//
// The kernel looks each name up in all layers, so a checkpoint that stands on many others is merged with them, in the
// background. Nothing waits for that, and nothing else changes: see package mounter.
//
// # Sizes and owners
//
// Uppers are measured while containers write to them, one at a time (meter.go). The same walk notes the first file of
// another uid than the volume's, for the warnings in Status. Directories do not count, because the engine makes some as
// root, nor do files of warm paths, which are looked at when they are promoted. The size of a workspace with a limit is
// what the kernel counts, which is asked for all of them every 10 s: it costs a system call, and the walk is too late for
// a workspace that fills up within a second. What the walk found beyond that is added: a container may have taken it out.
//
// # Readers
//
// A view of a workspace (package look) is a hold in memory, which dies with the process: the kernel does not count a
// read-only overlay that is mounted nowhere as a use of the upper, so the plugin does. While a checkpoint is held, its
// eviction is refused. A Mount never waits for a reader: if it needs a parked workspace, it ends the
// holds. The reader looks at its context between two reads; one that hangs in the kernel makes the Mount fail after
// HeldWait.
//
// # Leases after a restart
//
// A lease may have no container any more, or its container may have lost the workspace, and no Unmount tells. So the
// kernel is asked.
//
// A lost lease: after a disabled plugin or a crash, a Mount can come with a mount ID whose private workspace is not
// mounted any more. Either a container outlived the plugin, and docker cp on it mounts with the container's own ID; or
// the engine ended the container, and it comes back with its old ID. While somebody uses the old upper, the answer is
// an error (of package driver: a path that can't exist), else a new workspace. The IDs are in the record (Lost) until
// nobody uses the workspace.
//
// A lease of an earlier process is valid only while a container has the workspace (Config.Doubt): when engine and
// plugin are killed together, all overlays are still mounted at the next start, and the engine ends its containers
// without an Unmount. Each container that the engine gave the overlay has a copy of its mount, and the kernel's
// numbers of mounts (STATX_MNT_ID_UNIQUE, Linux 6.8) tell how many there are (overlay.Copies). It is asked before a
// Mount with an ID of an earlier process is answered, after an Unmount that leaves only such leases, and from 10 s to
// 20 minutes after the start, at growing intervals. If no container has the workspace, all leases of that time are
// lost; while one has it, all are valid, because nothing tells whose it is. A container that hides (it can make its
// mount private) loses its own lease, and keeps its files.
//
// Before Linux 6.8, and if a container has removed all its files, only a workspace that is not mounted can be asked
// about. So at a Mount with the only mount ID of a workspace, of an earlier process, the workspace is unmounted: if
// nobody uses it then, the container is new. With several mount IDs, or a lease of this process, all of them are
// valid.
//
// # A lease that is released by force
//
// ForceRelease is for a container that is gone and whose engine never unmounted. The kernel decides: a container has a
// copy of the mount, and only a process that uses the mount itself would make an unmount fail (TestUnmount in package
// overlay). So the copies are counted first, and then the workspace is unmounted without MNT_DETACH, and the record is
// committed after that: a crash in between leaves a workspace that is not mounted, which the start ends. A service of
// the host also looks into the mount tables of all processes, because containers there may have private copies.
// Between the answer to a Mount and the container's start nobody has a copy, so a lease is safe for 30 s after the
// workspace got its last one, and after a start of the plugin. An Unmount that the engine still sends finds no lease,
// and does nothing.
package workspace
