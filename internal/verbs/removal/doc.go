// Package removal removes clones at an operator's request, so that their next mount starts
// from nothing.
//
// Callers may rely on this: a workspace that has a lease is never taken away, nor one that
// the kernel says is in use. Removals of one clone follow one another. Everything goes by its
// records first, so a crash leaves what the next start removes. A removal does not end with
// the client's connection; the caller passes a context that does not either.
//
// A fresh start is an eviction that takes kept workspaces and checkpoints along. What is in the way is listed from memory
// before anything is cancelled. Then the clone's users and tasks end, and new ones wait. Only then is it decided: each
// kept workspace is unmounted (not lazily) and parked, and the kernel is asked whether a container has it. If one
// does, or if another lease has appeared, all stay. Otherwise the workspaces and checkpoints are removed one by one, each
// by its record first, and the clone after them. Without force, a Mount that waits for the clone is in the way; with
// force it fails, as with any eviction on demand. The reported size is measured when the removal begins, because
// recorded sizes may be old.
package removal
