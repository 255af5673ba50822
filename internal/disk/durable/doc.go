// Package durable writes and renames files and directories so that they survive crashes.
// It is the only package that renames them into place.
//
// At any moment and after any crash, a path that WriteFile or Rename changes has either
// its old or its new content. After they return nil, the new content survives a power
// loss. All else that a crash can leave has a name for which IsTemp returns true; the
// owner of the directory may delete it.
//
// The functions may be called concurrently; if two change one path, the last one wins.
package durable
