// Package work runs tasks that take long: it shares one piece of work between all
// callers that want its result, decides when heavy work may run, and ends it.
//
//	context ──1── Job ◄── WithOwner: a mount, a refresh in advance, the plugin
//	               │
//	               ├ waits for the result of another one ──► Share    one Job for all callers
//	               ├ waits for what another one holds ─────► Lock     for as long as the work
//	               ├ waits for its turn ───────────────────► Scheduler, which gives a Slot
//	               └ uses what must not be evicted ────────► Resource
//
// A context carries one Job. That of an Owner says for whom the work is done; nobody can make it
// urgent. A shared one has callers: the jobs that wait for its result, and those that wait for a
// Lock while it holds that. It is urgent while any of them is, so work that began in the
// background becomes urgent when a mount joins it, with all that it waits for in turn: its parts,
// and the holder of a lock that one of these needs.
//
//	a refresh ─┐
//	a mount ───┴► the tree ──► a submodule's fetch ──lock──► a fetch of other refs ──► a slot
//
// Both are needed. A fetch holds its store's lock while it waits for a slot to begin, because a
// slot whose holder waited for the lock would be lost to others, and once more when its pack is
// there. And a chain of jobs has no fixed length: a refresh in advance has the tree built,
// this has submodules fetched, and each may wait for the lock of another job.
//
// A Group runs shared work, which continues when its callers give up (unless all of them said that
// it is to end then), until it is done, it is cancelled, or the Group is closed. A Scheduler limits
// how much heavy work runs at the same time, so that no subject can keep all processors, or all
// connections to remotes, from others. Work in threads may use the processors that no slot is held for
// (Slot.Room). The slots of a push or an inspection give way (Job.GivesWay), so that no mount waits for
// them, of the same subject either. Work that waits for a remote or a reader, of which nearly nothing comes, ends when all
// slots are taken and another job waits (Slot.Outside). A Resource is what work is done on. It counts its users, so that an
// eviction can wait for them.
//
// Hold a slot of a Scheduler only while the work itself runs, and do not wait for a lock
// or another slot of the same kind meanwhile: so slots and locks cannot deadlock.
package work
