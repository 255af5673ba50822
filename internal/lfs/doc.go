// Package lfs reads the pointers of git-lfs, downloads their objects into a storage, and
// replaces pointers by their content.
//
// The name of an object in a storage is its hash, which was verified. Connections go only
// to places that the caller's rule allows, whatever the server says. Each request has a
// limit on silence, and one on its total time.
package lfs
