// Package githttp asks HTTP remotes for refs in this process, over connections that stay
// open.
//
// It speaks protocol 2 alone. A server's first answer, to GET info/refs, says whether it
// does; it is remembered, so a later question is one POST. The rules are git's: no
// redirect is followed, a credential is sent only to a server that has asked for one, and
// the certificates and proxies are those that git gets. Whatever goes wrong is an error,
// and a caller can then ask with git itself, which has the words for it.
//
// Two questions share connections only if they have the same server, credential and
// pinned addresses. Answers are bounded by package gitref.
package githttp
