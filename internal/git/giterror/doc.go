// Package giterror says which kind of failure an error of git, or of a server, is, and what a
// user can do about it.
//
// git has no codes for its errors, so New reads the kind from the messages of git and libcurl.
// A server can send text of its own, so its lines decide only between kinds that harm nobody.
// Only New knows the messages: others compare the Kind of an Error, and no text. An Error may
// be shown: it has no control characters, and no secrets.
//
// It starts no processes, and opens no files and connections.
package giterror
