// Package driver is Docker's volume plugin protocol: the engine's requests in, verbs out
// (internal/verbs). It has what is Docker's alone: the engine counts its Mounts, waits
// for an answer only so long, and takes errors for the end of a container.
//
// A caller may rely on this: Get, List, Path and Capabilities answer from memory and wait
// for nobody; a request that fails, or whose client hangs up, leaves nothing behind; the
// same request again has the same result. A Mount answers before its client gives up,
// with what is going on if it is not done.
//
// # Counting
//
// Docker counts: the engine sends a Mount for the container's start and one for each docker cp on it, with the same
// mount ID, and an Unmount for each. The first Mount is the lease "ID", the others are "ID#2", "ID#3" and so on, which
// are added to the same workspace; an Unmount releases the last one. So counts need no state of their own, and for
// each Mount it is known which process and which engine made it. For SUBJECT_MAX_LEASES a mount ID counts once. The
// lease IDs of a front end have no "#".
//
// # Patience
//
// A Mount gives up before its client: after MOUNT_WAIT, or two seconds before the engine's deadline if that is
// shorter. The engine waits 30 s after a plain docker plugin enable and 120 s otherwise, and does not say which: see
// patience.go.
//
// # A path that can't exist
//
// If the answer to a docker cp were an error, the engine would send an Unmount and forget the mount ID of the running
// container: the next docker cp would come with a new ID and silently get a new workspace. So if a workspace is out of
// reach, the answer is a path that can't exist, because it leads through a file; it ends with the text of the error,
// so that the engine's own error contains it.
//
// # An engine that finds the plugin alive
//
// With live-restore, a new engine inherits leases as a process does (package workspace). It does not tell the plugin
// that it has started, but it connects once and closes the connection without a request. This counts if the engine has
// no other connection: the kernel has closed those of an engine that has ended.
//
// An engine before 20.10.26, 23.0.7 or 24.0.3 (tried: 20.10.24) then counts the Mounts of its containers from zero,
// and forgets a mount ID with the Unmount that brings its count back to zero: after the first docker cp it would have
// no ID of the running container. But an Unmount that is answered with an error is not counted. So for each mount ID
// from before the engine's start, the first Unmount is done and answered with an error. After a docker cp the engine
// drops that error; at the container's end it is a line in its log, and it sends all Unmounts of a container whatever
// the first ones answer. An engine that has counted right counts one too many: it never forgets this ID, and starts
// the container with it again, as after a crash. So a mistake about which engine has connected does no harm. The first
// Unmount gets the error even if it is not that of a docker cp, because an Unmount at a container's end leaves such an
// engine at minus one.
package driver
