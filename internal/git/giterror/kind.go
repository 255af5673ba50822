package giterror

import (
	"errors"
	"slices"
)

// Kind classifies a failure of git by what the user can do about it.
type Kind string

const (
	KindAuth        Kind = "authentication failed"
	KindNotFound    Kind = "repository not found"
	KindRefNotFound Kind = "ref not found"
	KindNoCommit    Kind = "not a commit"
	KindHost        Kind = "host unknown"
	KindRefused     Kind = "connection refused"
	KindTLS         Kind = "tls"
	KindHostKey     Kind = "host key not known"
	KindHostChanged Kind = "host key has changed"
	KindCredential  Kind = "credential can't be used"
	KindRedirect    Kind = "redirected"
	KindProtocol    Kind = "transport not allowed"
	KindShallow     Kind = "incomplete history"
	KindPage        Kind = "not git"
	KindRequest     Kind = "request refused"
	KindTooLarge    Kind = "request too large"
	KindTimeout     Kind = "timeout"
	KindServer      Kind = "server error"
	KindNoSpace     Kind = "out of disk"
	KindCorrupt     Kind = "corrupt"
	KindLimit       Kind = "too much work"
	KindCanceled    Kind = "canceled"
	KindOther       Kind = "failed"
)

// remedy has what a user can do, by kind.
var remedy = map[Kind]string{
	KindAuth:        "the repository is private, or does not exist: store a credential for it (docker repos credentials put), or check the one that is stored",
	KindNotFound:    "check the spelling of the URL; a host may give the same answer for a private repository",
	KindRefNotFound: "name a branch, a tag, a full ref or a commit that the remote has",
	KindNoCommit:    "name a branch, or a tag of a commit",
	KindHost:        "check the host's name, and the name servers: docker repos doctor lists those that were asked",
	KindRefused:     "nothing listens at that address, or a firewall is in the way",
	KindTLS:         "the server's certificate is not trusted; add its authority to the setting CA_BUNDLE (docker plugin set)",
	KindHostKey:     "compare the fingerprint with the one that the host's owner publishes, and store the line (docker repos credentials put --kind known-hosts)",
	KindHostChanged: "somebody may be between you and the host: ask its owner, and only if the new key is right store its line instead of the old one (docker repos credentials put --kind known-hosts)",
	KindRedirect:    "if you trust the new URL, set the option repo to it",
	KindShallow:     "the remote is a shallow clone: fetch what it has with the option depth=N, or ask its owner to complete it (git fetch --unshallow)",
	KindPage: "check the URL, which may be that of a web page and not of the repository; a proxy (settings HTTP_PROXY and HTTPS_PROXY), the network or the host may " +
		"want a login first",
	KindRequest: "the server, or a proxy before it, may take no request without a length, and git sends none with what is larger than the setting HTTP_POST_BUFFER: " +
		"raise the setting, push fewer commits at a time, use ssh, or ask the server's owner",
	KindTooLarge: "the server, or a proxy before it, limits the size of a request: push fewer commits at a time, use ssh, or ask the server's owner to raise the limit " +
		"(nginx: client_max_body_size)",
	KindTimeout: "the remote did not answer in time; try again",
	KindServer:  "the remote is in trouble; try again",
	KindCorrupt: "the remote sent damaged data, or the data on the disk is damaged: try again, then ask the remote's owner to check the repository (git fsck)",
	KindLimit:   "fetch less of the repository with the options depth, filter=blob:none or sparse, raise the setting if the error names one, or give the machine more",
	KindNoSpace: "free space on the engine's data filesystem, or evict what holds it: docker repos df shows whose it is",
}

// Definite reports whether the failure is definite: another try would fail in the same
// way until something changes on either side.
func (k Kind) Definite() bool {
	return slices.Contains([]Kind{
		KindAuth, KindNotFound, KindRefNotFound, KindNoCommit, KindHost, KindRefused, KindTLS, KindProtocol,
		KindHostKey, KindHostChanged, KindCredential, KindRedirect, KindShallow, KindPage, KindRequest, KindTooLarge,
	}, k)
}

// Transient reports whether another try may succeed.
func (k Kind) Transient() bool { return k == KindServer || k == KindTimeout }

// remoteMayChoose reports whether a remote's error message may determine the kind.
func (k Kind) remoteMayChoose() bool {
	return k == KindAuth || k == KindNotFound || k == KindRefNotFound
}

// KindOf returns the kind of the *Error in err, or "" if err has none.
func KindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	return ""
}

// The kinds of what was done, as the metrics count it, that no error has.
const (
	// KindOK is the kind of success.
	KindOK Kind = "ok"
	// KindFallback is the kind of a question or a fetch of this process that git does
	// instead, as an event of its own.
	KindFallback Kind = "fallback"
)

// Kinds lists KindOK and the kinds of an Error.
func Kinds() []Kind {
	return []Kind{
		KindOK, KindAuth, KindNotFound, KindRefNotFound, KindNoCommit, KindHost, KindRefused, KindTLS, KindHostKey, KindHostChanged,
		KindCredential, KindRedirect, KindProtocol, KindShallow, KindPage, KindRequest, KindTooLarge, KindTimeout, KindServer, KindNoSpace, KindCorrupt, KindLimit, KindCanceled,
		KindOther,
	}
}
