package main

import (
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// kept are the capabilities that the plugin uses, if it was given them. An overlay works with those
// that its mounter had at the time of the mount: what a container may do in its workspace, these
// must allow too.
const kept uint64 = 1<<unix.CAP_SYS_ADMIN | // mounts
	1<<unix.CAP_DAC_READ_SEARCH | // file handles of overlays
	1<<unix.CAP_CHOWN | 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_FOWNER | 1<<unix.CAP_FSETID | // trees of any owner
	1<<unix.CAP_SETUID | 1<<unix.CAP_SETGID | 1<<unix.CAP_SETPCAP | // confining children
	1<<unix.CAP_KILL | // ending them
	1<<unix.CAP_MKNOD | 1<<unix.CAP_SETFCAP | // overlays: device nodes, and programs with capabilities
	1<<unix.CAP_SYS_PTRACE // a service of the host looks for mounts in the namespaces of others

// capabilityNames are the names of the kernel's capabilities by their numbers.
var capabilityNames = [unix.CAP_LAST_CAP + 1]string{
	"CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETPCAP", "LINUX_IMMUTABLE",
	"NET_BIND_SERVICE", "NET_BROADCAST", "NET_ADMIN", "NET_RAW", "IPC_LOCK", "IPC_OWNER", "SYS_MODULE", "SYS_RAWIO", "SYS_CHROOT", "SYS_PTRACE",
	"SYS_PACCT", "SYS_ADMIN", "SYS_BOOT", "SYS_NICE", "SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "MKNOD", "LEASE", "AUDIT_WRITE",
	"AUDIT_CONTROL", "SETFCAP", "MAC_OVERRIDE", "MAC_ADMIN", "SYSLOG", "WAKE_ALARM", "BLOCK_SUSPEND", "AUDIT_READ", "PERFMON", "BPF",
	"CHECKPOINT_RESTORE",
}

// capabilityName names a capability, also one that is newer than this program.
func capabilityName(c uintptr) string {
	if c < uintptr(len(capabilityNames)) {
		return "CAP_" + capabilityNames[c]
	}
	return fmt.Sprint("capability ", c)
}

// dropCapabilities removes all capabilities but those that are kept from all sets of all threads. It
// must precede everything that confines a thread, because afterwards threads differ in their rights.
func dropCapabilities() error {
	const lastPossible = 63 // a set has 64 bits
	for c := uintptr(0); c <= lastPossible; c++ {
		has, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, c, 0, 0, 0)
		if err != nil {
			break // the kernel has no more
		}
		if has == 0 || kept&(1<<c) != 0 {
			continue
		}
		if _, _, errno := syscall.AllThreadsSyscall(unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, c, 0); errno != 0 {
			return fmt.Errorf("drop %s: %w", capabilityName(c), errno)
		}
	}
	if _, _, errno := syscall.AllThreadsSyscall6(unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0, 0); errno != 0 {
		return fmt.Errorf("clear the ambient capabilities: %w", errno)
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3} // of the calling thread
	var sets [2]unix.CapUserData
	if err := unix.Capget(&header, &sets[0]); err != nil {
		return fmt.Errorf("capget: %w", err)
	}
	for i := range sets {
		sets[i].Permitted &= uint32(kept >> (32 * i))
		sets[i].Effective &= sets[i].Permitted
		sets[i].Inheritable = 0
	}
	if _, _, errno := syscall.AllThreadsSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&sets[0])), 0); errno != 0 {
		return fmt.Errorf("drop capabilities from the permitted set: %w", errno)
	}
	return nil
}
