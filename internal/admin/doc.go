// Package admin is what the operator of the plugin says to it: an HTTP API on a
// unix socket beside that of the volume protocol, and its client.
//
// A caller may rely on this: who may open the socket may do everything, for its
// permissions (0600, root) are the only ones that are checked; a request is decoded
// strictly, and refused if it is larger than 1 MiB; an error is {"error": "..."}
// with the status that HTTP has for it; a panic is the error of its one request.
// Secrets are in the bodies of requests only: never in an address, an answer, an
// error or the log.
//
// # From the host
//
// The socket is made where the engine expects those of the plugin:
//
//	sock=/run/docker/plugins/$(docker plugin inspect -f '{{.Id}}' helmdeck/repos)/admin.sock
//
// Store a user and token for everything below a URL. The secret comes through
// standard input, for what is an argument can be read by other processes:
//
//	curl -sS --fail-with-body --unix-socket $sock -X PUT --data @- http://admin/v1/credentials/github <<'EOF'
//	{"kind": "https", "scope": "https://github.com/my-org", "user": "x-access-token", "secret": "TOKEN"}
//	EOF
//
// For one subject only, with a token that is sent as Authorization: Bearer:
//
//	curl -sS --fail-with-body --unix-socket $sock -X PUT --data @- http://admin/v1/credentials/team-a <<'EOF'
//	{"kind": "bearer", "scope": "https://git.example.com", "subject": "team-a", "secret": "TOKEN"}
//	EOF
//
// Store an ssh key without a passphrase, and the keys of a host. The lines of the
// files become one JSON string:
//
//	{ printf '{"kind": "ssh-key", "scope": "ssh://git@github.com/my-org", "secret": "'
//	  awk '{printf "%s\\n", $0}' deploy_key; printf '"}'; } |
//	curl -sS --fail-with-body --unix-socket $sock -X PUT --data @- http://admin/v1/credentials/deploy
//
//	{ printf '{"kind": "known-hosts", "scope": "ssh://git.example.com:2222", "secret": "'
//	  ssh-keyscan -p 2222 git.example.com | awk '{printf "%s\\n", $0}'; printf '"}'; } |
//	curl -sS --fail-with-body --unix-socket $sock -X PUT --data @- http://admin/v1/credentials/example-host
//
// ssh-keyscan believes whoever answers: compare the fingerprints in the list with
// those that the host's owner publishes.
//
//	curl -sS --fail-with-body --unix-socket $sock http://admin/v1/credentials
//	curl -sS --fail-with-body --unix-socket $sock -X DELETE http://admin/v1/credentials/github
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
//	GET    /v1/janitor/plan         → 200, a Plan of package janitor: what a sweep would evict, and why
//	POST   /v1/janitor/sweep        → 200, a Report: what it has evicted, and who holds what is missing
//	GET    /v1/janitor/events       → 200 {"events": [{"time", "type", "kind", "reason", "subject", "clone", "id", "volume", "size", "text"}]}
//	GET    /v1/janitor/stats        → 200, Stats: counts by kind and reason, findings, the last sweep
//
// Kinds and scopes are those of package credential. "changed" and "bytes" are null
// until they are counted.
package admin
