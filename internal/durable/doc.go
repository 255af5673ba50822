// Package durable is the only place that renames into being.
//
// A caller may rely on this: a path that WriteFile or Rename was to make is,
// at any moment and after any crash, as it was before or as it was to be; and
// when one of them has returned nil, it stays as it was to be through a loss
// of power. What a crash leaves otherwise has a name that IsTemp knows, and
// may be deleted by whoever holds the directory.
//
// The functions may be called concurrently; of two at one path the last one
// wins.
package durable
