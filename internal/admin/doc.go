// Package admin is the operator's interface to the plugin: an HTTP API on a unix socket
// beside that of the volume protocol, and its client.
//
// Everyone who can open the socket may do everything: its permissions (0600, root) are
// the only check. Requests are decoded strictly, and refused if larger than 1 MiB. An
// error is {"error": "..."} with the fitting HTTP status. A panic fails only its own
// request. Secrets are in request bodies only: never in a URL, a response, an error or
// the log.
//
// # From the host
//
// The socket is in the directory of the plugin's other socket:
//
//	sock=/run/docker/plugins/$(docker plugin inspect -f '{{.Id}}' helmdeck/repos)/admin.sock
//
// Store a user and token for everything below a URL. Pass the secret on stdin, because
// other processes can read arguments:
//
//	curl -sS --fail-with-body --unix-socket $sock -X PUT --data @- http://admin/v1/credentials/github <<'EOF'
//	{"kind": "https", "scope": "https://github.com/my-org", "user": "x-access-token", "secret": "TOKEN"}
//	EOF
//
// Store a token that is sent as Authorization: Bearer, for one subject only:
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
// ssh-keyscan does not verify the keys: compare the fingerprints in the list with those
// that the host's owner publishes.
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
