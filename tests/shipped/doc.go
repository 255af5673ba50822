// Package shipped runs the plugin's program as the engine runs it: in its root filesystem, with that one's git, with the
// capabilities of a managed plugin and no others, and, where the machine can do it, in a memory cgroup of its own.
//
// It differs from a managed plugin in what is no limit: it shares the host's mount namespace and network, and no seccomp
// filter is applied. Without a namespace of its own there is nobody whom its mounts could fail to reach: the flag -managed is
// not set.
package shipped
