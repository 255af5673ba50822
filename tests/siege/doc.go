// Package siege attacks the plugin with work: repositories that are small to send and costly to use, remotes that never
// come to an end, and more clones than the machine has processors. It also has the victim, another subject that mounts
// all the time, whose figures say what an attack costs others.
//
// A Stage has the servers' side of all attacks; an Attack makes volumes on it. What the attacks leave on the plugin is
// for the caller to take away: Assault.End removes volumes as their owner would, Assault.Delete deletes the clones as an
// operator would.
package siege
