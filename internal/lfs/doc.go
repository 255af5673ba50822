// Package lfs reads the pointers of git-lfs, downloads the objects that they stand for
// into a storage, and writes those into files.
//
// A caller may rely on this: an object in a storage has the hash that is its name; no
// connection is made to a place that the caller's rule does not allow, whatever the
// server says; each request has a limit of silence, and one in all.
package lfs
