// Command plugin is the volume plugin: it reads the settings, opens the data directory,
// serves the engine, and repairs in the background.
//
// # Start and end
//
// All parts are made, each after those that it uses, before any of them runs (build in parts.go). A start that fails
// is logged, and the process waits for SIGTERM: if it ended at once, the engine would start it again, several times
// within ten seconds, and these starts would collide with the next enable. Two failures end the process at once, so
// that the engine starts it again: mounts that reach nobody (reach.go), and sockets that fail. At the end requests
// have a second; those that still wait for a clone or a remote then get an error, because the engine repeats a request
// that was cut off, without its body, for 20 seconds.
//
// A managed plugin (the flag -managed in config.json) makes its root directory, which the engine makes private,
// accessible to the uid that fetches, and checks that its mounts reach the engine. A service of the host does neither.
//
// With --userns-remap, the engine's data is in <uid>.<gid>/ below its directory. The root of the mount at /data shows
// that path, and Status says who should own the files. SELINUX_CONTEXT is the overlays' context=. It is tried at the
// start, because a kernel without SELinux refuses it.
//
// METRICS_ADDR is open to everybody who reaches it: connections, headers and times are bounded, nothing but /metrics
// is served, and the end of the plugin does not wait for scrapes (scrapes.go).
package main
