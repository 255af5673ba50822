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
//	discards
//	trees and git layers that nothing needs
//	warm layers and caches of idle clones
//	idle clones
//	idle clones that were just made or are larger than the limit, and clones that
//	only work which nobody waits for keeps: only for MIN_FREE and for room
package janitor
