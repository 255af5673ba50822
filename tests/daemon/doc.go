// Package daemon runs the plugin's own program for tests and benchmarks: a process with its own
// data directory, called over its sockets as the engine and an operator call it.
//
// A Daemon is one run of the program. Its data stay on disk: after Stop or Kill, Start with the
// same Config continues with the same data. Methods may be called concurrently, except Kill and
// Stop.
package daemon
