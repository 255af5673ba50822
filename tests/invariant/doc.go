// Package invariant checks what must hold of a data directory of the plugin, whatever happened to it: after a crash and
// the sweep of the next start, after a full disk, after hours of work.
//
//	Structure  records and directories name each other; chains are complete; what is mounted is leased, what is leased
//	           is mounted; nothing has a temporary name; the trash is empty
//	Content    the files of every tree are those of its commit, and every git layer has all objects of its history
//	Leaks      no process is left that is about the directory
//
// Structure holds once the plugin has done what it does in the background: poll it while it works. Content may be asked
// at any time after that.
package invariant
