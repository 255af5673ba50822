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
package admin
