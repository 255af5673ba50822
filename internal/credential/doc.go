// Package credential stores the secrets that private repositories need: tokens, ssh keys
// and known hosts, each with a name, scoped to a URL prefix and, if wanted, to one
// subject.
//
// Match returns a secret for a URL only if scheme, host and port of the credential's
// scope are exactly those of the URL, its path is a prefix of the URL's on / boundaries,
// and the credential is for every subject or for the one that asks; also when it is
// named. Secrets are shown by Secret.Reveal only: not by errors, nor by printing or
// encoding any exported type of this package. Match and List do no I/O.
//
// Two kinds have no secret for a remote, but one for a Provider, which gives others that end.
// Obtain returns what Match does with such a secret: one that is held in memory, or one that
// it asks the provider for, once for all callers. A credential that is put again or removed
// has none from then on. Lend holds a whole credential in memory.
//
// A credential may fetch, and push only if Allow says so.
//
// # Scopes
//
//	https://host[:port][/path]         https, bearer, github-app, http
//	http://host[:port][/path]          the same: in clear text, see below
//	ssh://[user@]host[:port][/path]    ssh-key; also written [user@]host:path
//	ssh://host[:port]                  known-hosts
//
// A scope without a path covers the whole host. A secret crosses the network in clear
// text only if its scope is an http:// URL: one for https:// is never sent over http. An
// ssh scope without a user covers all users of that host. A path relative to the user's
// home (host:org) is compared as if it were absolute (ssh://host/org), because hosting
// services do not distinguish them and the key proves the same user in both. Paths are
// compared byte by byte, except for a .git at the end.
//
// # On disk
//
// The directory is 0700, and holds one file of mode 0600 for each credential:
//
//	<name>.json    {"name", "kind", "scope", "subject", "user", "allow", "app_id", "api", "url", "secret"}
//
// Fields that a kind does not have are left out. Versions without the fields from "allow" on
// ignore them, and report the files of kinds that they do not know, without a change.
//
// A file that can't be read in this form is not changed until its name is put or removed;
// List says what is wrong with it. Other files are left alone.
package credential
