// Package work runs what takes long: it shares one piece of work between all who
// want its result, decides when heavy work may run, and ends it.
//
// A Group runs work that goes on when its callers have given up, until it is done,
// cancelled, or the Group is closed. A Scheduler limits how much heavy work runs at
// the same time, so that no subject can keep the processors, or the connections to
// remotes, from the others. The two meet in a Job, which says whose the work is and
// whether somebody waits for it; contexts carry it. A Resource is what work is done on,
// and knows who uses it, so that an eviction can wait for that.
//
// A slot of a Scheduler is held only while the work itself runs. Whoever holds one
// waits for no lock and for no other slot of the same kind, so that slots and locks
// cannot deadlock.
package work
