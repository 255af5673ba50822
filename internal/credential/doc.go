// Package credential keeps what is needed to read private repositories: tokens,
// ssh keys and known hosts, each stored by a name, scoped to a URL prefix and,
// if wanted, to one subject.
//
// A caller may rely on this: Match returns a secret for a URL only if scheme,
// host and port of the credential's scope are exactly those of the URL and its
// path is a prefix of the URL's on / boundaries, and only if the credential is
// for every subject or for the one that asks, named or not. No error, and no way
// of printing or encoding an exported type of this package, shows a secret; only
// Secret.Reveal does. Match and List answer from memory.
//
// # Scopes
//
//	https://host[:port][/path]         https, bearer
//	http://host[:port][/path]          https, bearer: in clear text, see below
//	ssh://[user@]host[:port][/path]    ssh-key; also written [user@]host:path
//	ssh://host[:port]                  known-hosts
//
// A scope without a path is for the whole host. A secret crosses the network in
// clear text only if its scope itself says http://: one for https:// is never
// sent over http. An ssh scope without a user is for all users of that host; a path
// that begins at the user's home (host:org) is compared as if it began at the root
// (ssh://host/org), for hosting services do not tell them apart and the key proves
// the same user in both. Paths are compared as they are written, byte by byte, but
// for a .git at the end.
//
// # On disk
//
// The directory is 0700, and holds one file of mode 0600 for each credential:
//
//	<name>.json    {"name", "kind", "scope", "subject", "user", "secret"}
//
// A file that can't be read as that stays as it is until its name is put or
// removed; List says what is wrong with it. Other files are left alone.
package credential
