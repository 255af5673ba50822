// Package janitor decides what to evict so that disk usage stays bounded, and evicts it.
//
// Decide is a pure function of plain values, and its result does not depend on their
// order. A plan never evicts a clone or a part that is held. Every eviction has a reason, and a text for
// people. A sweep that finds nothing to do costs one inventory from memory and one
// statfs. A failed eviction is reported, and tried again after a while.
//
// The order of eviction:
//
//	contents of the trash         counted as free already
//	discards past DISCARD_TTL     without pressure
//	clones idle for TTL           without pressure
//	layers unneeded for TTL       without pressure
//
// and then, for the limit that is exceeded (SUBJECT_MAX_SIZE, MAX_SIZE, MIN_FREE, room
// that a fetch or a build needs), in these stages, least recently used first:
//
//	idle clones that exceed SUBJECT_MAX_SIZE or MAX_SIZE on their own, each after its
//	discards: only for that limit
//	discards
//	unneeded trees and git layers
//	warm layers and caches of idle clones
//	idle clones
//	idle clones that were just made, or were just used and are larger than a limit on
//	their own, and clones that are busy only with work that nobody waits for: only for
//	MIN_FREE and for room
//
// A clone that exceeds a limit on its own is exempt while it is in use, and for
// Limits.Grace after its last use: its parts that can't be evicted do not count, so no
// other clone is evicted for it. If nothing is in use, kept, or in its grace period, a
// plan brings all clones below the limits in bytes.
package janitor
