package volume

import (
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

// hasSecret is the problem of a URL with something that belongs into a credential.
const hasSecret = "contains a password or token"

// httpUser matches the user of an https or http URL.
var httpUser = regexp.MustCompile(`^([A-Za-z0-9._~+=-]|%[0-9A-Fa-f]{2})+$`)

// storeInstead is the advice for somebody who wrote it.
const storeInstead = ": store a credential for the URL instead, and leave it out here"

// checkUser checks the part of a URL before the @. Hosts offer https://user@host/path for copying.
func checkUser(scheme, user string) (problem string) {
	switch {
	case strings.ContainsRune(user, ':'):
		return hasSecret
	case scheme == "git":
		return "contains a user name, which git:// does not have"
	case scheme == "ssh" && !sshUser.MatchString(user):
		return "has a user part that is not a plain ssh user name"
	case scheme == "ssh":
		return ""
	case user == "":
		return "has an empty user name"
	case !httpUser.MatchString(user):
		return "has a user name with other characters than letters, digits and ._~+=- (an @ in it is %40)"
	}
	name, _ := url.PathUnescape(user)
	switch {
	case strings.ContainsRune(name, ':') || looksLikeToken(name):
		return hasSecret
	case len(name) > maxUser || !plain(name):
		return "has a user name that is longer than " + strconv.Itoa(maxUser) + " bytes, is not UTF-8, or has control characters"
	}
	return ""
}

// maxUser is in bytes: as of a credential's user.
const maxUser = 256

// tokenText matches tokens that hosting services take in place of a user: those with a known beginning, and long ones
// without any separator.
var tokenText = regexp.MustCompile(`^(gh[a-z]_|github_pat_|gl[a-z]+-|AT(BB|CT|AT))[A-Za-z0-9_=-]{16,}$|^[A-Za-z0-9]{32,}$`)

func looksLikeToken(user string) bool {
	return tokenText.MatchString(user) && strings.ContainsAny(user, "0123456789")
}

// sshUser matches user names that ssh can't take for an option or for several words.
var sshUser = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.+-]*$`)

// HTTPUser returns the user that an https or http URL names, decoded. It is for a server that asks, and has no
// password. It is empty for other schemes.
func (u URL) HTTPUser() string {
	if !u.isHTTP() {
		return ""
	}
	name, _ := url.PathUnescape(u.user) // ParseURL has checked it
	return name
}

// WithoutUser returns u without HTTPUser: what git and HTTP clients are given, because the user may only be sent to a
// server that asks. The user of ssh stays.
func (u URL) WithoutUser() URL {
	if u.isHTTP() {
		u.user = ""
	}
	return u
}
