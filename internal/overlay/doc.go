// Package overlay is the only place that calls mount(2) and its relatives.
//
// Guarantees: every mount is nodev and nosuid; a symbolic link at the end of a path
// argument, or anywhere below a mount, is not followed; layer paths may be of any length;
// a function that returns an error leaves no mount behind; Busy covers every mount
// namespace, not only ours.
//
// The package keeps no state: the kernel's mount table is the only one. All functions may
// be called concurrently. They need CAP_SYS_ADMIN in the initial user namespace and Linux
// 5.12; Probe reports when either is missing.
//
// # Mount points
//
// Mount points exist only in a tmpfs. After a crash, or after an enable that failed and is repeated, an engine may be
// late to handle the end of an earlier plugin process, and unmounts the propagated mount then. If that happens after
// it has prepared this mount for the new process, no mount of the plugin reaches another mount namespace, and the
// engine binds whatever the host has at the path of an answer. A directory there would give the container an empty one
// without any error; the host does not see the tmpfs, so the path does not exist and the container does not start.
// MountPoints makes the tmpfs's directory anew, because the late unmounts can leave the host with the tmpfs of an
// earlier process (TestOldMountPoints). Propagates asks the kernel whether mounts reach anybody (0.1 to 0.4 ms), Unmounted
// whether an engine has unmounted the tmpfs; the plugin then ends, and the engine starts it again, which repairs the
// propagation. A container has only slaves of these mounts, so nothing that it does to its own changes the result.
//
// # Publications
//
// What a pod gets (Target) is a copy of the workspace's mount, not a peer: a recursive bind would join the target to
// the peer group, and the unmount of one pod's .git/helmdeck would remove that of another (TestPeers). So the mounts
// are cloned (open_tree), made private and, if asked, read-only recursively (mount_setattr), and moved to the target,
// all by descriptor.
//
// # Noise
//
// Mounts that others make while Copies counts are counted too. So it counts 32 times, each count in the overlay next
// to those in the tmpfs just before and after it; the median counts, and a zero only if a second round confirms it.
// (Linux 6.12 can list the mounts of all namespaces, but only for a process in the host's PID namespace.)
package overlay
