// Package git is the only place that executes git.
//
// Every command runs with an environment built from nothing (no system, global or user
// configuration, no hooks, no prompts, no credential helpers), as the unprivileged uid
// that the caller names, in a sandbox (internal/sandbox) with access to the directories
// of its task only. Only LsRefs, Fetch, FetchPack, FetchObjects and RunRemote can talk to a
// remote, over the transports that New was given; all other commands have no transport, so a
// missing object is an error. Do not use this package on a directory that a container could
// have written to.
//
// Errors of git are *giterror.Error: they give the kind of failure and what a user can do
// about it.
package git
