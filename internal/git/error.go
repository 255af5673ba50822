package git

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"

	"github.com/helmdeck/repos/internal/sandbox"
	"github.com/helmdeck/repos/internal/work"
)

// Kind classifies a failure of git by what its user can do about it.
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
	KindTimeout     Kind = "timeout"
	KindServer      Kind = "server error"
	KindNoSpace     Kind = "out of disk"
	KindCorrupt     Kind = "corrupt"
	KindLimit       Kind = "too much work"
	KindCanceled    Kind = "canceled"
	KindOther       Kind = "failed"
)

// remedy says what to do, where that is known.
var remedy = map[Kind]string{
	KindAuth:        "the repository is private, or does not exist: store a credential for it, or check the one that is stored",
	KindNotFound:    "check the spelling of the URL; a host may also answer so for a private repository",
	KindRefNotFound: "name a branch, a tag, a full ref or a commit that the remote has",
	KindNoCommit:    "name a branch, or a tag of a commit",
	KindHost:        "check the host's name, and the name servers of the machine",
	KindRefused:     "nothing listens at that address, or a firewall is in the way",
	KindTLS:         "the server's certificate is not trusted; add its authority to the setting CA_BUNDLE",
	KindHostKey:     "compare the fingerprint with the one that the host's owner publishes, and store the line as a credential of kind known-hosts",
	KindHostChanged: "somebody may be between you and the host: ask its owner, and only if the new key is right store its line in the place of the old one, as a credential of kind known-hosts",
	KindRedirect:    "if you trust that place, name it in the option repo",
	KindTimeout:     "the remote did not answer in time; try again",
	KindServer:      "the remote is in trouble; try again",
	KindCorrupt:     "what the remote sent, or what is on the disk, is damaged: try again, then ask the remote's owner to check the repository (git fsck)",
	KindLimit:       "have less of the repository with the options depth, filter=blob:none or sparse, or give the machine more",
	KindNoSpace:     "free space on the engine's data filesystem, or remove volumes and clones",
}

// Definite reports whether the remote has given its answer: asking again
// without a change on either side would be answered the same.
func (k Kind) Definite() bool {
	switch k {
	case KindAuth, KindNotFound, KindRefNotFound, KindNoCommit, KindHost, KindRefused, KindTLS, KindProtocol,
		KindHostKey, KindHostChanged, KindCredential, KindRedirect:
		return true
	}
	return false
}

// Error is a command of git that failed.
type Error struct {
	Op     string // what was attempted, such as "ask the remote for its refs"
	URL    string // of the remote, if one was involved; never holds a secret
	Kind   Kind
	Stderr string // the last words of git
	Detail string // more telling than git's words, if set
	Remedy string // what to do, if it is not what the kind says
	Err    error  // exit status, or the context's cause

	words string // the line of Stderr that the kind was told by
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Op)
	if e.URL != "" {
		fmt.Fprintf(&b, " %s", e.URL)
	}
	fmt.Fprintf(&b, ": %s", e.Kind)
	words := cmp.Or(Printable(e.words), lastWords(e.Stderr))
	var exit *exec.ExitError
	switch {
	case e.Detail != "":
		fmt.Fprintf(&b, " (%s)", Printable(e.Detail))
	case words != "":
		fmt.Fprintf(&b, " (git: %s)", words)
	case e.Err != nil && (e.Kind == KindOther || !errors.As(e.Err, &exit)):
		fmt.Fprintf(&b, " (%v)", e.Err)
	}
	if r := cmp.Or(e.Remedy, remedy[e.Kind]); r != "" {
		fmt.Fprintf(&b, ": %s", r)
	}
	return b.String()
}

func (e *Error) Unwrap() error { return e.Err }

// Signal returns the signal that ended git, 0 if none did.
func (e *Error) Signal() syscall.Signal {
	if exit, ok := errors.AsType[*exec.ExitError](e.Err); ok {
		if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			return status.Signal()
		}
	}
	return 0
}

// KindOf returns the kind of the *Error in err, or "" when there is none.
func KindOf(err error) Kind {
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return ""
}

// newError tells the kind of a failure. filled says whether the command has found its
// filesystem full.
func newError(op, url, stderr string, err error, filled bool) *Error {
	e := &Error{Op: op, URL: url, Kind: KindOther, Stderr: stderr, Err: err}
	var silent SilentError
	var limit *work.LimitError
	switch {
	case errors.As(err, &limit):
		e.Kind, e.Detail = KindLimit, limit.Error()
	case errors.As(err, &silent):
		e.Kind, e.Detail = KindTimeout, silent.Error()
	case errors.Is(err, context.DeadlineExceeded):
		e.Kind = KindTimeout
	case errors.Is(err, context.Canceled):
		e.Kind = KindCanceled
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		e.Kind = KindNoSpace
	default:
		e.Kind, e.words = classify(stderr, url, filled)
	}
	return e
}

// explainLimit says which limit the command has run into, if it was one. It must
// have ended on its own.
func (e *Error) explainLimit(l sandbox.Limits, state *os.ProcessState) {
	if said := l.Exceeded(state, e.Stderr); said != "" {
		e.Kind, e.Detail = KindLimit, said
	} else if e.Kind == KindLimit {
		e.Detail = l.OutOfMemory()
	}
}

// RefNotFound is the error for a ref that the remote does not have.
func RefNotFound(url, ref string) error {
	return &Error{Op: fmt.Sprintf("find ref %q at", ref), URL: url, Kind: KindRefNotFound}
}

// NoCommit is the error for a ref that the remote has, and that is no commit.
func NoCommit(url, ref string) error {
	return &Error{Op: fmt.Sprintf("check out ref %q of", ref), URL: url, Kind: KindNoCommit}
}

// signs are looked for in git's stderr, in this order. They are the words of
// git 2.39 to 2.50 and of libcurl under LC_ALL=C. The remote's own words arrive
// there too, behind "remote: ", and are not looked at: a server could
// otherwise choose the kind. The ssh client's arrive as they are, and the server's
// with them, and so does the name of a tracked file: so that the disk is full is
// not believed on anybody's word.
var signs = []struct {
	re   *regexp.Regexp
	kind Kind
}{
	{regexp.MustCompile(`(?i)^(fatal|error): (out of memory\b|[a-z]+: out of memory|unable to create \w*thread|.*: cannot allocate memory$)|^fatal error: .*(out of memory|cannot allocate memory)`), KindLimit},
	{regexp.MustCompile(`(?i)no space left on device|disk quota exceeded|^error: unable to write file`), KindNoSpace},
	{regexp.MustCompile(`transport '[^']*' not allowed`), KindProtocol},
	{regexp.MustCompile(`(?i)host key verification failed|host key is known|host identification has changed`), KindHostKey},
	{regexp.MustCompile(`returned error: 30\d|unable to update url base from redirection`), KindRedirect},
	{regexp.MustCompile(`(?i)could not resolve host`), KindHost},
	{regexp.MustCompile(`(?i)authentication failed|could not read (username|password)|returned error: 40[13]|access denied|permission denied \(`), KindAuth},
	{regexp.MustCompile(`(?i)repository '[^']*' not found|returned error: 404|does not appear to be a git repository|repository not found|not valid: is this a git repository`), KindNotFound},
	{regexp.MustCompile(`(?i)couldn't find remote ref|not our ref|unadvertised object|no such remote ref|unknown revision|remote branch .* not found`), KindRefNotFound},
	{regexp.MustCompile(`(?i)timed out|timeout|too slow|less than \d+ bytes/sec`), KindTimeout},
	// A connection that breaks says nothing about the certificate.
	{regexp.MustCompile(`(?i)connection reset|rpc failed|ssl_error_syscall|in the pull function|non-properly terminated|unexpected eof`), KindServer},
	{regexp.MustCompile(`(?i)certificate|ssl|gnutls|\btls\b`), KindTLS},
	{regexp.MustCompile(`(?i)connection refused|failed to connect|couldn't connect|could not connect|no route to host|network is unreachable`), KindRefused},
	{regexp.MustCompile(`(?i)object file .* is empty|corrupt|bad (object|signature|config line)|sha1 mismatch|missing (blob|tree|commit|necessary objects)|unable to (read|find) [0-9a-f]{40}|unable to read (tree|sha1 file of)|failed to unpack tree object|does not point to a valid object|pack has bad|index file smaller|inflate:|inflate returned|loose object|packed-refs|unterminated line|not a git repository|did not send all necessary objects|unresolved deltas`), KindCorrupt},
	{regexp.MustCompile(`(?i)returned error: (5\d\d|429)|hung up unexpectedly|early eof|rpc failed|connection reset|unexpected disconnect|empty reply|transfer closed|connection closed by|invalid index-pack output`), KindServer},
}

// classify returns the kind, and the line that says so, without git's prefix. What
// the user wrote as url is not a sign: a host may be called "timeout".
//
// Of what a remote says is wrong, behind "fatal: remote error: ", only that counts
// which it can also say with its answer.
func classify(stderr, url string, filled bool) (kind Kind, words string) {
	sign := func(line string) string { return line }
	if url = strings.TrimSuffix(url, "/"); url != "" {
		sign = func(line string) string { return strings.ReplaceAll(line, url, "") }
	}
	var own []string
	for _, line := range strings.FieldsFunc(stderr, func(r rune) bool { return r == '\n' || r == '\r' }) {
		if !strings.HasPrefix(line, "remote: ") {
			own = append(own, strings.TrimSpace(line))
		}
	}
	for _, s := range signs {
		if s.kind == KindNoSpace && !filled {
			continue
		}
		for _, line := range own {
			if strings.HasPrefix(line, "fatal: remote error: ") && !s.kind.remotes() {
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

// remotes reports whether a kind is for the remote to say.
func (k Kind) remotes() bool { return k == KindAuth || k == KindNotFound || k == KindRefNotFound }

// lastWords returns the line of stderr that says most: the last "fatal:" or
// "error:" of git, without control characters, which a remote could send.
func lastWords(stderr string) string {
	var best string
	for _, line := range strings.FieldsFunc(stderr, func(r rune) bool { return r == '\n' || r == '\r' }) {
		line = strings.TrimSpace(line)
		for _, p := range []string{"fatal: ", "error: "} {
			if rest, ok := strings.CutPrefix(line, p); ok {
				best = rest
			}
		}
	}
	if strings.HasPrefix(best, "Could not read from remote repository") {
		// What ssh has said before that is the reason.
		best, _, _ = strings.Cut(strings.TrimSpace(stderr), "\n")
	}
	return Printable(best)
}

// Damaged is the error for a store that can't be read.
func Damaged(store string, err error) error {
	return &Error{Op: "read the store", Kind: KindCorrupt, Detail: fmt.Sprintf("%s: %v", store, err), Err: err}
}

// NoAnswer is the error for a question that nobody waits for any longer.
func NoAnswer(url string, err error) error {
	return &Error{Op: "ask for the refs of", URL: url, Kind: KindTimeout, Detail: err.Error(), Err: err}
}

// EmptyRemote is the error for a remote without a commit to check out.
func EmptyRemote(url string) error {
	return &Error{
		Op: "find the default branch of", URL: url, Kind: KindRefNotFound,
		Detail: "its HEAD stands for no commit",
		Remedy: "push a first commit if the repository is empty, name a branch in the option ref, or check that the URL is a repository's",
	}
}
