package volume

import (
	"crypto/sha256"
	"encoding/hex"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxURL is the longest URL in bytes: more than any server accepts in its request line.
const maxURL = 4096

// URL is the URL of a remote repository, made by ParseURL. It contains no password, and can be compared with ==.
type URL struct {
	scheme string // lower case
	user   string // not with git://; of https and http as the user wrote it, percent-encoded
	host   string // lower case, an IPv6 address without brackets
	port   string // digits, "" if the user gave none
	path   string // no trailing slash; begins with one unless scp
	scp    bool   // written user@host:path
}

// ParseURL reads https://, http://, git:// and ssh:// URLs, and git+ssh://, ssh+git:// and the scp-like form
// [user@]host:path as ssh, if schemes allows them.
//
// It refuses: more than 4096 bytes; a password, and a user that looks like a token or that git:// has; a query or a
// fragment, because git appends its own path after them; control characters, white space and backslashes, also
// percent-encoded control characters; path segments . and .., also percent-encoded; hosts that are neither ASCII names
// nor IP addresses; local paths; helpers (ext::); a leading dash. The error is an *OptionError for "repo".
func ParseURL(text string, schemes Schemes) (URL, error) {
	u, problem := parseURL(text, schemes)
	return u, refuse(optRepo, text, problem, schemes.allowed())
}

func parseURL(text string, schemes Schemes) (URL, string) {
	u, problem := parseAnyURL(text)
	switch {
	case problem == hasSecret:
		problem += storeInstead
	case problem != "":
	case len(u.Normalized()) > maxURL: // in the scp-like form each % becomes three bytes
		problem = "is longer than " + strconv.Itoa(maxURL) + " bytes"
	case !schemes.Allows(u.scheme):
		problem = "has the scheme " + shown(u.scheme) + ", which is not allowed"
		if AllSchemes().Allows(u.scheme) {
			problem += " (the setting ALLOW_SCHEMES can add it)"
		}
	default:
		return u, ""
	}
	return URL{}, problem
}

var helperText = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9+.-]*::`)

// parseAnyURL does not check whether the scheme is allowed: the caller must. The problem contains no part of the
// text except the scheme.
func parseAnyURL(text string) (u URL, problem string) {
	switch {
	case text == "":
		return u, emptyValue
	case len(text) > maxURL:
		return u, "is longer than " + strconv.Itoa(maxURL) + " bytes"
	case text[0] == '-':
		return u, "begins with a dash"
	case helperText.MatchString(text):
		return u, "calls a transport helper, which is not allowed"
	case !utf8.ValidString(text):
		return u, "is not valid UTF-8"
	case strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsGraphic(r) || unicode.IsSpace(r) }):
		return u, "contains white space, a control or an invisible character (a space in a path is %20)"
	case strings.ContainsRune(text, '\\'):
		return u, "contains a backslash"
	}
	if scheme, rest, ok := strings.Cut(text, "://"); ok && schemeText.MatchString(scheme) {
		if u.scheme = strings.ToLower(scheme); u.scheme == "git+ssh" || u.scheme == "ssh+git" {
			u.scheme = "ssh" // as git reads them
		}
		if !AllSchemes().Allows(u.scheme) {
			// The caller refuses the unknown scheme, so the rest does not matter.
			return u, ""
		}
		return parseHierarchical(u, rest)
	}
	return parseSCP(text)
}

// parseHierarchical reads what follows scheme://.
func parseHierarchical(u URL, rest string) (URL, string) {
	authority, path := rest, ""
	if i := strings.IndexByte(rest, '/'); i >= 0 {
		authority, path = rest[:i], rest[i:]
	}
	if i := strings.LastIndexByte(authority, '@'); i >= 0 {
		u.user, authority = authority[:i], authority[i+1:]
		if problem := checkUser(u.scheme, u.user); problem != "" {
			return u, problem
		}
	}
	var problem string
	if strings.ContainsAny(rest, "?#") {
		return u, "has a query or a fragment, which git can't use (in a path, ? is %3F and # is %23)"
	}
	if u.host, u.port, problem = splitHost(authority); problem != "" {
		return u, problem
	}
	u.path = strings.TrimRight(path, "/")
	decoded, err := url.PathUnescape(u.path)
	if err != nil {
		return u, "has a % in its path that two hexadecimal digits do not follow (a % itself is %25)"
	}
	return u, checkPath(decoded)
}

// parseSCP reads [user@]host:path. As in git, the colon comes before any slash.
func parseSCP(text string) (u URL, problem string) {
	const notURL = "is not a URL"
	u = URL{scheme: "ssh", scp: true}
	rest := text
	if i := strings.IndexAny(rest, "@:/["); i >= 0 && rest[i] == '@' {
		if u.user, rest = rest[:i], rest[i+1:]; !sshUser.MatchString(u.user) {
			return u, notURL
		}
	}
	end := strings.IndexByte(rest, ':')
	if strings.HasPrefix(rest, "[") {
		end = strings.IndexByte(rest, ']') + 1
	}
	if strings.Contains(text, "://") || end <= 0 || end == len(rest) || rest[end] != ':' || strings.ContainsRune(rest[:end], '/') {
		return u, notURL
	}
	host, path := rest[:end], rest[end+1:]
	if u.host, u.port, problem = splitHost(host); problem != "" || u.port != "" {
		return u, notURL
	}
	switch {
	case u.host == "file" || u.user == "" && AllSchemes().Allows(u.host):
		return u, "lacks the // after the scheme"
	case u.user == "" && strings.ContainsRune(path, '@'):
		return u, "contains a password, or an @ in its path, which only a URL can have: ssh://host/path"
	case strings.ContainsAny(path, "?#"):
		return u, "contains ? or #, which only a URL can have in its path, as %3F and %23"
	case strings.HasPrefix(path, "-"):
		return u, "has a path that begins with a dash"
	}
	u.path = strings.TrimRight(path, "/")
	return u, checkPath(u.path)
}

var hostLabel = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?$`)

// splitHost reads host[:port] and returns the host in lower case, an IPv6 address without its brackets.
func splitHost(authority string) (host, port, problem string) {
	host = authority
	if i := strings.LastIndexByte(authority, ':'); i > strings.LastIndexByte(authority, ']') {
		host = authority[:i]
		n, err := strconv.ParseUint(authority[i+1:], 10, 16)
		if err != nil || n == 0 {
			return "", "", "has a port that is not a number from 1 to 65535"
		}
		port = strconv.FormatUint(n, 10)
	}
	if host == "" {
		return "", "", "has no host"
	}
	if inner, ok := strings.CutPrefix(host, "["); ok {
		addr, err := netip.ParseAddr(strings.TrimSuffix(inner, "]"))
		if err != nil || !strings.HasSuffix(inner, "]") || !addr.Is6() || addr.Zone() != "" {
			return "", "", "has a host in brackets that is not an IPv6 address"
		}
		return addr.String(), port, ""
	}
	// DNS allows names of at most 253 bytes and labels of at most 63.
	if len(host) > 253 {
		return "", "", "has a host name longer than 253 bytes"
	}
	for label := range strings.SplitSeq(host, ".") {
		if !hostLabel.MatchString(label) {
			return "", "", "has a host that is not a name of ASCII letters, digits, dashes and dots"
		}
	}
	return strings.ToLower(host), port, ""
}

// checkPath checks a path as the server will read it: percent-decoded, without trailing slashes.
func checkPath(path string) (problem string) {
	if path == "" {
		return "has no path"
	}
	if strings.ContainsFunc(path, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return "has a percent-encoded control character in its path"
	}
	for segment := range strings.SplitSeq(path, "/") {
		if segment == "." || segment == ".." {
			return "has a . or .. in its path"
		}
	}
	return ""
}

// String returns the URL for git and for origin: as the user wrote it, with scheme and host in lower case and
// without trailing slashes. It keeps the port, and a .git at the end because some servers need it. For the zero URL
// it returns "".
func (u URL) String() string {
	if u == (URL{}) {
		return ""
	}
	if u.scp {
		return u.authority("") + ":" + u.path
	}
	return u.scheme + "://" + u.authority(u.port) + u.path
}

// Normalized returns the same text for all spellings of a repository: an ssh:// URL for the scp-like form, without
// the user of https and http, without a default port and without .git at the end. The ssh user and a home-relative path
// (host:path and ssh://host/~/path) make a difference, because they name another repository.
func (u URL) Normalized() string {
	path := u.path
	if u.scp {
		// git does not percent-decode the path of this form.
		path = strings.ReplaceAll(path, "%", "%25")
		switch {
		case strings.HasPrefix(path, "/"):
		case strings.HasPrefix(path, "~"):
			path = "/" + path
		default:
			path = "/~/" + path
		}
	}
	// Keep a whole segment .git, which is inside a work tree, and ..git and ...git, whose rest would be another
	// path.
	if short, ok := strings.CutSuffix(path, ".git"); ok {
		switch short[strings.LastIndexByte(short, '/')+1:] {
		case "", ".", "..":
		default:
			path = short
		}
	}
	port := u.port
	if port == defaultPort[u.scheme] {
		port = ""
	}
	u = u.WithoutUser()
	return u.scheme + "://" + u.authority(port) + path
}

var defaultPort = map[string]string{"https": "443", "http": "80", "ssh": "22", "git": "9418"}

func (u URL) authority(port string) string {
	text := u.host
	if strings.Contains(text, ":") {
		text = "[" + text + "]"
	}
	if u.user != "" {
		text = u.user + "@" + text
	}
	if port != "" {
		text += ":" + port
	}
	return text
}

// Hash returns the repo hash: the first 16 hexadecimal digits of the SHA-256 of Normalized.
func (u URL) Hash() string {
	sum := sha256.Sum256([]byte(u.Normalized()))
	return hex.EncodeToString(sum[:8])
}

// Scheme returns the scheme in lower case, ssh for the scp-like form.
func (u URL) Scheme() string { return u.scheme }

// Host returns the host in lower case, without port and brackets.
func (u URL) Host() string { return u.host }

// Port returns the URL's port, or its scheme's default.
func (u URL) Port() string {
	if u.port != "" {
		return u.port
	}
	return defaultPort[u.scheme]
}

// isHTTP reports whether the scheme is https or http.
func (u URL) isHTTP() bool { return u.scheme == "https" || u.scheme == "http" }

// OverHTTP returns the repository's HTTP URL without a user: the URL itself if its scheme is http or
// https, else the same host and path over https, where git-lfs expects the objects of a
// repository that is fetched over ssh.
func (u URL) OverHTTP() string {
	if u.isHTTP() {
		return u.WithoutUser().String()
	}
	return URL{scheme: "https", host: u.host, path: "/" + strings.TrimPrefix(u.path, "/")}.String()
}

// ParseRelative reads the URL of a submodule of u. As in git, one that begins with ./ or
// ../ is relative to u, and stays on u's host; ParseURL reads any other. The error is an
// *OptionError for "repo".
func (u URL) ParseRelative(text string, schemes Schemes) (URL, error) {
	if !strings.HasPrefix(text, "./") && !strings.HasPrefix(text, "../") {
		return ParseURL(text, schemes)
	}
	path, rest := u.path, text
	for {
		if after, ok := strings.CutPrefix(rest, "./"); ok {
			rest = after
			continue
		}
		after, ok := strings.CutPrefix(rest, "../")
		if !ok {
			break
		}
		if strings.Trim(path, "/") == "" {
			return URL{}, refuse(optRepo, text, "leads above the top of the superproject's host", schemes.allowed())
		}
		path, rest = path[:max(0, strings.LastIndexByte(path, '/'))], after
	}
	// A path of the scp-like form need not begin with a slash.
	if path != "" || !u.scp {
		path += "/"
	}
	u.path = path + rest
	return ParseURL(u.String(), schemes)
}
