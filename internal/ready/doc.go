// Package ready keeps what was mounted in the last day ready, so that the next Mount of it
// waits for its question to the remote alone: it asks, fetches and builds in the
// background, at an interval or on request.
//
// Callers may rely on this: a refresh is not a use of a clone. It neither keeps a clone from
// eviction nor defers the clone's end, makes no clone, and makes no room on a full disk. It
// is never urgent, but a Mount that wants the same question, fetch or layer joins it and
// makes it urgent. Only a few checkouts are refreshed at a time, and subjects
// take turns. The Keeper's own state is in memory: after a start it begins without failures.
//
// Warm is another thing: it does all of this for what was not mounted yet, as a use of the
// clone, and ends when its callers have gone.
package ready
