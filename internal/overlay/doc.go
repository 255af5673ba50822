// Package overlay is the only place that calls mount(2) and its relatives.
//
// A caller may rely on this: every mount that is made here is nodev and
// nosuid; no symbolic link is followed at the end of a path that is given, nor
// anywhere below a mount; layer paths may be of any length; a function that
// returns an error leaves no mount behind; and Busy tells of every mount
// namespace, not only of ours.
//
// It does not remember anything: the kernel's mount table is the only state.
// All functions may be called concurrently. CAP_SYS_ADMIN in the initial user
// namespace and Linux 5.12 are needed; Probe says so when they are missing.
package overlay
