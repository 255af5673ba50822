// Package remote keeps a remote repository as we hold it: bare repositories, the stores,
// one for each history that was asked for, and what is known of their refs.
//
//	<directory>/store/<history>.git/  such as full.git or depth-10.git; belongs to the
//	                                  fetching uid
//
// What else the directory has, who holds the repository, and for whom, is for the holder
// to know: it gives a Config, and keeps the records of the stores.
//
// A caller may rely on this: a store that has a record was fetched as a whole; its refs are
// those of the record, or it is fetched again. Questions, fetches and repairs of a store
// exclude each other, also between processes, and are shared by those who want the same;
// they go on when the caller's context ends.
package remote
