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
//	checkpoints past CHECKPOINT_TTL     without pressure
//	clones idle for TTL           without pressure
//	layers unneeded for TTL       without pressure
//
// and then, for the limit that is exceeded (SUBJECT_MAX_SIZE, MAX_SIZE, MIN_FREE, room
// that a fetch or a build needs), in these stages, least recently used first:
//
//	idle clones that exceed SUBJECT_MAX_SIZE or MAX_SIZE on their own, each after its
//	checkpoints: only for that limit
//	checkpoints
//	unneeded trees and git layers
//	warm layers, and layers of caches, the lowest first, of idle clones
//	idle clones
//	idle clones that were just made, or were just used and are larger than a limit on
//	their own, and clones that are busy only with work that nobody waits for: only for
//	MIN_FREE and for room
//
// A clone that exceeds a limit on its own is exempt while it is in use, and for
// a minute after its last use: its parts that can't be evicted do not count, so no
// other clone is evicted for it. If nothing is in use, kept, or in its grace period, a
// plan brings all clones below the limits in bytes.
//
// # Why so
//
// The data comes from an interface (Stock), which the plugin fills from the records in memory: a sweep that finds
// nothing costs a walk of these and a statfs. Each stage is a heap of numbers, because a plan takes few of many: with
// 100,000 clones of five layers and five checkpoints each it takes 70 to 100 ms and at most 75 MB (go test -bench
// Decide).
//
//   - Nothing is evicted for the trash. An evicted item is in the trash with its size at once, because the next round
//     has no other trace of it. What can't be deleted, or not yet because somebody still writes to it, counts like the
//     plugin's own files.
//   - Checkpoints last, because they can't be fetched again, and none in vain: if the limit stays exceeded even without
//     all that may go, none is evicted for it. When the last checkpoint of an idle clone is gone, the clone goes before
//     the next checkpoint: two checkpoints are worth more than a clone. But a subject above its own limit loses its checkpoints
//     first, which are its own doing.
//   - Once a limit is exceeded, eviction continues to a mark a tenth below it. But a clone, which is expensive, is not
//     evicted if that only serves the mark and would overshoot it.
//   - Too large: a clone in use is exempt, because evicting all others would not help, and so it is for a minute after
//     its last use, because the second of two successive mounts should not clone again. One that is mounted every hour
//     clones each time, because a limit that idle clones may exceed is none. It is a finding while it exists, and for
//     a day after its eviction, to explain why mounts are slow (TestIdleClonesStayBelowLimit).
//   - A clone that was never mounted is protected for ten minutes, because its first mount is about to come; if it
//     exceeds a limit on its own, for a minute.
//   - Age is counted from the last use, to the minute; a time in the future counts as now. Of the clones and checkpoints
//     that are more than a day overdue, each scheduled sweep evicts at most a twentieth, other sweeps none: neither a
//     jump of the clock by years nor a month without power evicts everything at once.
//   - A failed eviction counts as held for 5 minutes, doubling up to a day. If an item came into use after the plan
//     was made, its owner refuses, and the next plan decides again.
//   - It sweeps on schedule, after something was measured, and when a statfs every second shows less than MIN_FREE;
//     the last ones less and less often while they do not help. It waits for the startup sweep, before which leftovers
//     of an earlier run look busy.
//   - The trash hurries while less than MIN_FREE (or 1%) is free, or while it and the clones exceed MAX_SIZE. Without
//     that, sixteen workers that mount and unmount as fast as they can fill an ext4 of 8 GiB with trash within five
//     minutes.
//   - A caller that gets ENOSPC gets what it needs, if it knows that, from the trash if that has as much. For one that
//     does not know, see guess; if that share is free already, no unexpired checkpoints of other subjects and no
//     protected clones are evicted for it. If many callers ask, room is made once. Nobody waits longer than a minute
//     for the trash, because its entries may be stuck.
//   - Only a project quota bounds what a container writes while it runs, and the plugin sets none. So a container that
//     fills the disk makes MIN_FREE evict what others have idle; checkpoints stay until their time if the disk would be
//     too full even without everything that can be evicted. The holder of the space is a finding.
package janitor
