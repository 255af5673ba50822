// Package remote keeps our copy of a remote repository: bare repositories, called stores,
// one for each requested history, and records of their refs.
//
//	<directory>/store/<history>.git/  such as full.git or depth-10.git; owned by the
//	                                  fetching uid
//
// The holder of the repository decides what else is in the directory, and for whom it
// keeps the repository. It gives a Config and stores the records.
//
// Guarantees: a store with a record was fetched completely, and its refs are those of the
// record, or it is fetched again. Questions, fetches and repairs of a store exclude each
// other, also between processes. Callers that want the same share them, and they continue
// when a caller's context ends.
package remote
