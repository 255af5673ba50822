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
package overlay
