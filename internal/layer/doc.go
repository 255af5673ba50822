// Package layer keeps immutable layers: directories that overlays stand on.
//
//	clones/<owner>/<directory of the kind>/<id>/
//
// An owner has layers of several kinds in one Set. What a kind means, which layers
// are needed, and when one is made, is for the owners to know: here are only the
// steps of a layer's life, which are the same for all.
//
//   - Temp makes a directory, under a temporary name; it is filled, or something is
//     renamed into it.
//   - Publish renames it into being and commits a record that is good for this boot.
//   - Run, in the background, or Sync makes it durable: a sync of the filesystem, and
//     then the record says so.
//   - Hold and Drop count who stands on it.
//   - Withdraw and Remove have it go: out of memory, so that nobody can hold it, then the
//     record, then the directory, to the trash.
//   - Void and TrashStrays find what a crash has left: records without a directory,
//     or of one that was not durable before a reboot, and directories without a
//     record.
//
// A caller may rely on this: a layer that is known has its directory, unless somebody
// removes that behind our back; a directory that is held stays; nobody else has to
// know where a layer lies.
package layer
