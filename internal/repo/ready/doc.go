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
//
// # What is refreshed
//
// The record of a clone has the options of what was mounted in the last day and decides what is checked out
// (volume.Options.Checkout), and when. It is not the volumes' records, because some runtimes remove the volume with
// each container. Equal options are one entry, and commits are none.
//
// # How
//
// A refresh goes the way of a Mount up to the layers, with three differences: the branches and tags that a Mount
// leaves for later are fetched at once, because they belong to the git layer; the layers are not held; and the times
// of last use stay as they are. The question of a POST /v1/refresh is not shared with one that began earlier,
// because that may have the answer of before the push. Requests for the same refs that come while one runs share the
// next one, so a burst of webhooks costs two questions for each ref.
//
// Its owner yields: an eviction, for whatever reason, cancels work that yields, and to the janitor the clone looks
// unused. Once a Mount has joined a piece of work, that piece does not yield any more. An evicted clone is not made
// again, nor one of a submodule.
//
// Intervals differ by a tenth at random, and after a start the first ones begin at random moments. If a remote can't
// be reached, the other refs of that clone are not tried, and the clone waits twice as long after each failure, up to
// an hour. Any other error, such as that of a deleted branch, delays only that ref. Of failures in a row only the
// first one is a warning in the log.
//
// Warm makes a clone that does not exist, and is a use, so that nothing evicts the clone meanwhile. It is not urgent,
// and does not yield. Its question begins after the call, like that of a POST /v1/refresh. An equal call that comes
// later than this question asks once more, and shares the fetch and the layers.
package ready
