// Package siege attacks the plugin with work: repositories that are small to send and costly to
// use, remotes that send without end, and more clones than the machine has processors. It also has
// the victim, another subject that mounts all the time. The victim's times show how much an attack
// costs others.
//
// A Stage has the servers for all attacks; an Attack gets its volumes from it. The caller cleans up
// in the plugin: Assault.End removes the volumes as their owner would, and Assault.Delete deletes
// the clones as an operator would.
package siege
