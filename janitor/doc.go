// Package janitor decides what goes when the disk is to stay bounded, and lets it
// go.
//
// A caller may rely on this: Decide is a pure function of plain values, and its
// answer does not depend on their order; nothing that is held is ever in a plan;
// every eviction has a reason and a text that says why; a sweep that finds nothing
// to do costs one inventory from memory and one statfs. What can't be evicted is
// reported, left alone for a while, and tried again.
//
// The order in which things go:
//
//	what is in the trash          is gone already, and counted so
//	discards past DISCARD_TTL     without pressure
//	clones idle for TTL           without pressure
//	layers unneeded for TTL       without pressure
//
// and then, by the limit that is exceeded (SUBJECT_MAX_SIZE, MAX_SIZE, MIN_FREE,
// room that a fetch or a build asks for), within each stage what was not used for
// the longest time first:
//
//	idle clones that exceed SUBJECT_MAX_SIZE or MAX_SIZE on their own, each after its
//	discards: only for that limit
//	discards
//	trees and git layers that nothing needs
//	warm layers and caches of idle clones
//	idle clones
//	idle clones that were just made, or just used and are larger than a limit on
//	their own, and clones that only work keeps for which nobody waits: only for
//	MIN_FREE and for room
//
// A clone that exceeds a limit on its own is an exception while it is in use, and for
// Limits.Grace after its last use: what of it can't go does not count, so nothing of
// others is evicted for it. Whenever nothing is in use, kept, or in its grace period,
// a plan brings all clones below the limits in bytes.
package janitor
