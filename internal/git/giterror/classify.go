package giterror

import (
	"regexp"
	"slices"
	"strings"
)

// signs are matched against git's stderr, in this order. They are messages of git 2.39 to
// 2.50 and of libcurl under LC_ALL=C. Lines with the prefix "remote: " come from the remote
// and are ignored, because a server could otherwise choose the kind. Messages of the ssh
// client, which can come from the server, and names of tracked files have no prefix.
// Therefore a full disk needs other evidence too.
var signs = []struct {
	re   *regexp.Regexp
	kind Kind
}{
	{regexp.MustCompile(`(?i)^(fatal|error): (out of memory\b|[a-z]+: out of memory|unable to create \w*thread|.*: cannot allocate memory$)|^fatal error: .*(out of memory|cannot allocate memory)`), KindLimit},
	{regexp.MustCompile(`(?i)no space left on device|^error: unable to write file`), KindNoSpace},
	{regexp.MustCompile(`transport '[^']*' not allowed`), KindProtocol},
	{regexp.MustCompile(`^fatal: source repository is shallow`), KindShallow},
	{regexp.MustCompile(`bad line length character: <`), KindPage},
	{regexp.MustCompile(`(?i)rpc failed; http 413\b|returned error: 413\b`), KindTooLarge},
	{regexp.MustCompile(`(?i)rpc failed; http (400|411)\b|returned error: 411\b`), KindRequest},
	{regexp.MustCompile(`(?i)host key verification failed|host key is known|host identification has changed`), KindHostKey},
	{regexp.MustCompile(`returned error: 30\d|unable to update url base from redirection`), KindRedirect},
	{regexp.MustCompile(`(?i)could not resolve host`), KindHost},
	{regexp.MustCompile(`(?i)authentication failed|could not read (username|password)|returned error: 40[13]|access denied|permission denied \(`), KindAuth},
	{regexp.MustCompile(`(?i)repository '[^']*' not found|returned error: 404|does not appear to be a git repository|repository not found|not valid: is this a git repository`), KindNotFound},
	{regexp.MustCompile(`(?i)couldn't find remote ref|not our ref|unadvertised object|no such remote ref|unknown revision|remote branch .* not found`), KindRefNotFound},
	{regexp.MustCompile(`(?i)timed out|timeout|too slow|less than \d+ bytes/sec`), KindTimeout},
	// These messages contain "ssl" or "tls", but a broken connection says nothing about the
	// certificate.
	{regexp.MustCompile(`(?i)connection reset|rpc failed|ssl_error_syscall|in the pull function|non-properly terminated|unexpected eof`), KindServer},
	{regexp.MustCompile(`(?i)certificate|ssl|gnutls|\btls\b`), KindTLS},
	{regexp.MustCompile(`(?i)connection refused|failed to connect|couldn't connect|could not connect|no route to host|network is unreachable`), KindRefused},
	{regexp.MustCompile(`(?i)object file .* is empty|corrupt|bad (object|signature|config line)|sha1 mismatch|missing (blob|tree|commit|necessary objects)|unable to (read|find) [0-9a-f]{40}|unable to read (tree|sha1 file of)|failed to unpack tree object|does not point to a valid object|pack has bad|index file smaller|inflate:|inflate returned|loose object|packed-refs|unterminated line|not a git repository|did not send all necessary objects|did not receive expected object|unresolved deltas`), KindCorrupt},
	{regexp.MustCompile(`(?i)returned error: (5\d\d|429)|hung up unexpectedly|early eof|rpc failed|connection reset|unexpected disconnect|empty reply|transfer closed|connection closed by|invalid index-pack output`), KindServer},
}

// classify returns the kind and the line that determines it, without git's prefix. It
// ignores url in the lines, because a host may be called "timeout".
//
// Lines with "fatal: remote error: " are the remote's: they can determine only kinds that
// the remote may choose anyway.
func classify(stderr, url string, filled bool) (kind Kind, words string) {
	sign := func(line string) string { return line }
	if url = strings.TrimSuffix(url, "/"); url != "" {
		sign = func(line string) string { return strings.ReplaceAll(line, url, "") }
	}
	own := slices.DeleteFunc(splitLines(stderr), func(line string) bool { return strings.HasPrefix(line, "remote: ") })
	for _, s := range signs {
		if s.kind == KindNoSpace && !filled {
			continue
		}
		for _, line := range own {
			line = strings.TrimSpace(line)
			if strings.HasPrefix(line, "fatal: remote error: ") && !s.kind.remoteMayChoose() {
				continue
			}
			if s.re.MatchString(sign(line)) {
				line = strings.TrimPrefix(strings.TrimPrefix(line, "fatal: "), "error: ")
				return s.kind, line
			}
		}
	}
	return KindOther, ""
}

// splitLines returns the lines of git's stderr. git's progress lines end with \r.
func splitLines(stderr string) []string {
	return strings.FieldsFunc(stderr, func(r rune) bool { return r == '\n' || r == '\r' })
}

// lastWords returns the most useful line of stderr: the last "fatal:" or "error:" of git,
// without control characters, which a remote could send.
func lastWords(stderr string) string {
	var best string
	for _, line := range splitLines(stderr) {
		line = strings.TrimSpace(line)
		for _, p := range []string{"fatal: ", "error: "} {
			if rest, ok := strings.CutPrefix(line, p); ok {
				best = rest
			}
		}
	}
	if strings.HasPrefix(best, "Could not read from remote repository") {
		// ssh's line before it has the reason.
		best, _, _ = strings.Cut(strings.TrimSpace(stderr), "\n")
	}
	return Printable(best)
}

// maxWords, in bytes, is enough for a message with the known_hosts line of a 4096-bit RSA
// key.
const maxWords = 1000

// Printable returns text without control characters, truncated if it is too long.
func Printable(text string) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, text)
	if len(text) > maxWords {
		text = strings.ToValidUTF8(text[:maxWords], "") + "…"
	}
	return text
}
