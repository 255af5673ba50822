// Package mint asks the providers of secrets that renew: GitHub's API for the tokens of an
// app, and services of the operator over HTTP. credential.Store decides when one is asked,
// shares its answer and keeps it.
//
// A request is bounded in time and bytes, follows no redirect, and goes to the URL of the
// credential alone. Errors have the kinds of a remote's errors: one that may pass is tried
// again, and a volume with stale_if_error is mounted without an answer; a refusal is
// giterror.KindCredential. They name the credential and the provider, and repeat nothing of
// an answer, because it may have the secret that was sent.
//
// An app needs two requests for a token: which installation has the repository, and its token for this repository and
// "contents". The first is not remembered: it is one in an hour, and would be wrong after the app was installed anew.
package mint
