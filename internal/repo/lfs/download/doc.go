// Package download fetches objects of git-lfs into a storage.
//
// The name of an object in a storage is its hash, which was verified. Connections go only
// to places that the caller's rule allows, whatever the server says. Each request has a
// limit on silence, and one on its total time.
//
// A client of our own (the batch API, basic transfers) takes the place of the program git-lfs, which follows whatever
// URLs and redirects the server answers with, to any address that this machine reaches. Transfers over ssh are not
// supported: for a repository that is fetched over ssh, the objects come from the same path over https. An object that
// can't be had is an error that names it and the file, because a tree with some pointers left would look complete.
package download
