// Package admin is the operator's interface to the plugin: an HTTP API on a unix socket
// beside that of the volume protocol. Package api has its types, its client, and the
// description of each route, openapi.yaml, which the tests compare with the handlers.
//
// Everyone who can open the socket may do everything: its permissions (0600, root) are
// the only check. Requests are decoded strictly: an unknown field or parameter is an error.
// They are refused if larger than 1 MiB. An error is an api.ErrorAnswer with the fitting HTTP
// status. A panic fails only its own request. Secrets are in request bodies only: never in a
// URL, a response, an error or the log.
//
// Handlers copy what they show from memory, and hold no lock while they write. Those of
// clones, subjects, stats, plan and sweep wait until the leftovers of an earlier run are
// known. A client that does not read its answer for half a minute is disconnected.
//
// Evictions, fresh starts, forced releases and sweeps are completed even if their client goes.
// Warming ends with its client, except for what a mount or another client waits for. What is
// refused because something is in the way has the status 409, and lists that.
//
// The socket, admin.sock, is in the directory of the plugin's other socket. docs/operations/operate.md shows
// how to call it with curl. Pass a secret on stdin, because other processes can read
// arguments. ssh-keyscan does not verify the keys that it prints: compare the fingerprints
// in the list of credentials with those that the host's owner publishes.
//
// # Why so
//
//   - Lists come in pages by key, not by position, because a record may go between two pages. The plugin remembers
//     nothing between two pages; one of 10,000 records takes some 30 ms.
//   - Events have numbers that grow, also from one process to the next, because the first number is the time of the
//     start: a client that lost its connection asks for those after its last one. A client that follows has a number
//     and no queue: it reads the 1000 events that the janitor keeps, and an event of the type "lost" says how many it
//     missed.
//   - A long operation answers with JSON lines, and never waits for its client: it leaves the newest progress for the
//     next line. One that fails before its first line has an HTTP status, as any request.
//   - At most 32 clients follow events, and all streams end when the plugin stops.
//   - Decoding is strict, because an operator who misspells a limit must not believe that it applies.
package admin
