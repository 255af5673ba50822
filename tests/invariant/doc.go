// Package invariant checks the invariants of a plugin's data directory, which hold after a crash
// and the sweep of the next start, after a full disk, and after hours of work.
//
//	Structure  every record has its directory and every directory its record; chains are complete; a workspace is
//	           mounted if and only if its record says so; nothing has a temporary name; the trash is empty
//	Content    the files of every tree equal its commit, and every git layer has all objects of its history
//	Leaks      no process is left that uses the directory
//
// Structure holds once the plugin's background work is done: poll it until then. Call Content only
// after that.
package invariant
