// Package daemon runs the plugin's own program for tests and benchmarks: a process on a data directory of its own,
// called over its sockets as the engine and an operator call it.
//
// A Daemon is one run of the program. What is on disk outlives it: Start on the same Config goes on with it, after Stop
// as after Kill. Methods may be called concurrently, but for Kill and Stop.
package daemon
