// Package work runs tasks that take long: it shares one piece of work between all
// callers that want its result, decides when heavy work may run, and ends it.
//
// A Group runs work, which continues when its callers give up (unless all of them said
// that it is to end then), until it is done, it is cancelled, or the Group is closed. A Scheduler limits how much heavy work runs at the
// same time, so that no subject can take all processors, or all connections to remotes.
// A Job, which contexts carry, says who owns the work and whether a caller waits for it.
// A Resource is what work is done on. It counts its users, so that an eviction can wait
// for them.
//
// Hold a slot of a Scheduler only while the work itself runs, and do not wait for a lock
// or another slot of the same kind meanwhile: so slots and locks cannot deadlock.
package work
