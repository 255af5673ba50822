// Package git is the only place that executes git.
//
// A caller may rely on this: every command runs with an environment built from
// nothing (no system, global or user configuration, no hooks, no prompts, no
// credential helpers), as the unprivileged uid that the caller names, in a sandbox
// (internal/sandbox) that has the directories of its task alone. Only LsRefs, Fetch
// and FetchObjects can talk to a remote, over the transports that New was given; all
// others have none, so that an object that is missing is an error. Nothing in this
// package is ever pointed at a directory that a container could have written.
//
// Errors that come from git are *Error: they say which kind of failure it was
// and what a user can do about it.
package git
