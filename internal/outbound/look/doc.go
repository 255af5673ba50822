// Package look gives access to the files of a workspace to whoever is not its container: its
// files as the container sees them, and what it began with.
//
// A caller may rely on this:
//
//   - Nothing is mounted where a container or the engine could see it, nothing is written, and
//     no record is: after a crash there is nothing to repair.
//   - The upper of a workspace that is mounted is read only through that mount, and that of
//     another one only through a mount that can't write. So an upper is never in two
//     overlays that use it.
//   - Open does not wait for containers, and nothing but the end of the workspace waits for a
//     View.
//
// A container may change whatever it can write while it is looked at, so paths are resolved
// beneath the descriptors, without links and without entering mounts (disk.Open), such as the
// cache.
//
// A mounted workspace is read through a descriptor of its overlay's root. It keeps the overlay alive: an Unmount is
// answered as ever, and the upper stays in use until the view is closed. The files of a parked workspace and of a
// checkpoint are a read-only overlay that is mounted nowhere, with the upper as its topmost layer and the metacopy of the
// record. Package workspace counts the readers of those, because the kernel does not.
package look
