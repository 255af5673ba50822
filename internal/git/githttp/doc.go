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
//
// # Connections
//
// A new connection costs three round trips before the question: TCP, TLS and git's handshake. So connections stay open
// for five minutes after a question. A connection that a router has dropped is found by TCP keep-alives, or by its
// question after five seconds (TCP_USER_TIMEOUT); that is then asked again from the handshake on. If a server closes
// an idle connection less than five minutes after a question, the handshake is sent once in the background, without a
// credential, so that the next question finds an open one: five times at most until that question comes.
//
// Connections belong to the credential, and a secret that changes does not make new ones: their key has
// credential.Match.Owner in its place.
package githttp
