// Package admin is the operator's interface to the plugin: an HTTP API on a unix socket
// beside that of the volume protocol.
//
// Everyone who can open the socket may do everything: its permissions (0600, root) are
// the only check. Requests are decoded strictly, and refused if larger than 1 MiB. An
// error is {"error": "..."} with the fitting HTTP status. A panic fails only its own
// request. Secrets are in request bodies only: never in a URL, a response, an error or
// the log.
//
// The socket, admin.sock, is in the directory of the plugin's other socket. README.md shows
// how to call it with curl. Pass a secret on stdin, because other processes can read
// arguments. ssh-keyscan does not verify the keys that it prints: compare the fingerprints
// in the list of credentials with those that the host's owner publishes.
//
// # Routes
//
//	PUT    /v1/credentials/{name}   {"kind", "scope", "subject", "user", "secret"} → 204
//	GET    /v1/credentials          → 200 {"credentials": [{"name", "kind", "scope", "subject", "user", "fingerprints", "problem"}]}
//	DELETE /v1/credentials/{name}   → 204, 404
//	GET    /v1/discards             → 200 {"discards": [{"id", "volume", "subject", "repo", "commit", "ref", "ended_at", "expires_at", "changed", "bytes", "measured_at"}]}
//	DELETE /v1/discards/{id}        → 204, 404, 409
//	GET    /v1/clones               → 200 {"clones": [{"clone", "subject", "repo", "used", "size", "parts", "held"}]}
//	DELETE /v1/clones/{subject}/{hash} → 204, 404, 409: evicts what "clone" names
//	POST   /v1/refresh              {"repo", "ref", "subject"} → 200 {"refreshed": [{"clone", "subject", "ref", "commit", "error"}]}, 404
//	GET    /v1/janitor/plan         → 200, a Plan of package janitor: what a sweep would evict, and why
//	POST   /v1/janitor/sweep        → 200, a Report: what it evicted, and the holders if a limit stays exceeded
//	GET    /v1/janitor/events       → 200 {"events": [{"time", "type", "kind", "reason", "subject", "clone", "id", "volume", "size", "text"}]}
//	GET    /v1/janitor/stats        → 200, Stats: counts by kind and reason, findings, the last sweep
//
// A refresh names all subjects that have a clone of the repository if it names none, and all
// that was mounted in the last day if it names no ref; each result has a commit or an error.
// Kinds and scopes are those of package credential. "changed" and "bytes" are null
// until they are counted.
package admin
