// Package layer keeps immutable layers: directories that overlays use as lower layers.
//
//	clones/<owner>/<directory of the kind>/<id>/
//
// The layers of an owner, of all kinds, are one Set. The owners know what a kind means,
// which layers are needed, and when to make one. This package has the steps of a layer's
// life, which are the same for all kinds:
//
//   - Temp makes a directory with a temporary name. The caller fills it, or renames
//     something into it.
//   - Publish renames it to its final name and commits a record that is valid for this
//     boot.
//   - Run, in the background, or Sync makes the layer durable: it syncs the filesystem and
//     then updates the record.
//   - Hold and Drop count the references to a layer.
//   - Withdraw removes a layer from memory, so that nobody can hold it. Remove then deletes
//     the record and moves the directory to the trash.
//   - Void and TrashStrays find what a crash left: records whose directory is missing or
//     was not durable before a reboot, and directories without a record.
//
// A caller may rely on this: a known layer has its directory, unless another program
// removed it; a held directory stays; only this package knows where a layer is stored.
package layer
