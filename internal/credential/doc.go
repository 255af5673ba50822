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
// Fields that a kind does not have are left out. A file of an unknown kind is reported, without a
// change.
//
// A file that can't be read in this form is not changed until its name is put or removed;
// List says what is wrong with it. Other files are left alone.
//
// # Secrets that end
//
// A secret of a provider is held by credential, repository, access and, for a service, subject: an app's token is the
// same for all subjects that may use the credential. It is held until five minutes before its end or the half of its
// life, by the machine's clock, which counts while the machine sleeps, and by the monotonic one, which counts when the
// clock is set back. Each entry of the store has a serial number, which is in the key: a credential that was put again
// or removed has no secret from then on, also if its provider answers later.
//
// Lend is for a front end that gets secrets with its requests. The name has a colon, so that no user can choose or
// name it, and List leaves it out. The same secret for the same URL and subject has the same name, so that many pods
// of one repository ask and fetch once. Changes counts Return, but neither Lend nor a renewal: no answer came with a
// credential that did not exist.
//
// This package and package mint are two, because Match, List and the files need no network, and because the errors of
// requests have the kinds of package giterror, which credentials do not know.
package credential
