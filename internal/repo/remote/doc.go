// Package remote keeps our copy of a remote repository: bare repositories, called stores,
// one for each requested history, and records of their refs.
//
//	<directory>/store/<history>.git/  such as full.git or depth-10.git; owned by the
//	                                  fetching uid
//
// The clone that the repository belongs to decides what else is in the directory. It gives
// a Config and stores the records.
//
// A Mount gets a Snapshot: the refs of one answer, and where the store is that has their objects. It is a value that
// never changes, whatever moves the store:
//
//	Snapshot                round 1, and up to 3 more if mend says so: the store was damaged or set aside, the cold
//	  |                     store has ended, or the store has a newer answer
//	  +- recorded           what the record has, if that may serve (servedBy)
//	  +- ask                an answer in memory that may serve, or a question, which all share that came before it began
//	  +- reconcile          the store gets what the answer says
//	  |    confirm, align   the ref is where the record has it: other refs are adopted as far as their objects are there
//	  |    fetchRef         otherwise it is fetched
//	  +- use                the caller builds layers from the Snapshot: Refs reads its refs, Link takes the lock
//
// serve.go has the rule which answer may serve which request, and nothing else decides that. The question begins after
// the request came, so a push that ended before a Mount came is in it; many Mounts at once ask twice at most. There are
// two exceptions. With Since.For, answers since a Create serve a volume for a while; none older than a Create or a change
// of credentials does. And a volume may ask for records: with refresh=never, refresh=<duration> and, while the remote
// does not answer, stale_if_error, the record serves as it is, even one from before the Create or the change. A commit
// never moves. Questions are numbered, so that an older answer never moves a store back.
//
// When a store gets other refs, the Snapshots that have not read theirs keep those of before in memory. No fetch and no
// repack drops an object, so a Snapshot can be built until its store is set aside.
//
// Guarantees: a store with a record was fetched completely, and its refs are those of the record, or it is fetched
// again. Fetches and repairs of a store exclude each other, by a lock of this process: no other one uses the directory.
// Questions take no lock. Callers that want the same share all three, and they continue when a caller's context ends.
// Of what a caller need not wait for, the branches and tags that no question has brought, there is one listing at a time
// for each store, at most once a second and a tenth of the time.
package remote
