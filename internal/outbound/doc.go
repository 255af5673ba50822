// Package outbound brings the commits of a workspace to its remote, or into a bundle.
//
// A caller may rely on this: nothing is written to the workspace; a subject, and all together, have
// a bounded number of pushes at a time, so that they take a bounded part of the disk;
// everything stops when the caller gives up, or the plugin stops; and a Result says what is
// known of the workspace also beside an error, for the records of what was tried.
//
// internal/outbound/quarantine takes and checks the commits. This package says for which workspace, with
// which credential, and to which branch.
//
// # Turns
//
// A subject has one push at a time and all have eight, or up to 24: a push that has its turn for a second gives way
// while others wait, because its remote decides how long it takes. It gives way to its own subject too, which then has up
// to three; all subjects together have up to eight more so. When all of these last, those that wait longest for a remote which
// took less than 1 MiB in 30 s, or for a reader of a bundle in 10 s, end for others (work.Slot.Outside), and their subjects
// come after the others for an hour, and have half of the eight turns at most. Each has at most two copies of what it sends
// (package quarantine), so all take at most 64 times PUSH_MAX_SIZE. A push opens its workspace when it has its turn:
// those that wait hold nothing. One that finds the disk full has room made for it. A quarantine is removed when its
// push ends, and by the next start; nothing else is written, so there is nothing to repair: the remote has the branch
// or not.
package outbound
