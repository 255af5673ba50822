// Package shipped runs the plugin's program as the engine runs it: in the plugin's root filesystem,
// with the git in it, with exactly the capabilities of a managed plugin, and, where the machine
// allows it, in its own memory cgroup.
//
// It differs from a managed plugin in two points that limit nothing: it shares the host's mount
// namespace and network, and it has no seccomp filter. The flag -managed is not set, because in the
// host's mount namespace the mounts always reach the containers.
package shipped
