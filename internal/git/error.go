package git

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/sandbox"
	"github.com/helmdeck/repos/internal/work"
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
	KindHost:        "check the host's name, and the name servers of the machine",
	KindRefused:     "nothing listens at that address, or a firewall is in the way",
	KindTLS:         "the server's certificate is not trusted; add its authority to the setting CA_BUNDLE",
	KindHostKey:     "compare the fingerprint with the one that the host's owner publishes, and store the line as a credential of kind known-hosts",
	KindHostChanged: "somebody may be between you and the host: ask its owner, and only if the new key is right store its line instead of the old one, as a credential of kind known-hosts",
	KindRedirect:    "if you trust the new URL, set the option repo to it",
	KindShallow:     "the remote is a shallow clone: fetch what it has with the option depth=N, or ask its owner to complete it (git fetch --unshallow)",
	KindTimeout:     "the remote did not answer in time; try again",
	KindServer:      "the remote is in trouble; try again",
	KindCorrupt:     "the remote sent damaged data, or the data on the disk is damaged: try again, then ask the remote's owner to check the repository (git fsck)",
	KindLimit:       "fetch less of the repository with the options depth, filter=blob:none or sparse, or give the machine more",
	KindNoSpace:     "free space on the engine's data filesystem, or evict what holds it: docker repos df shows whose it is",
}

// Definite reports whether the failure is definite: another try would fail in the same
// way until something changes on either side.
func (k Kind) Definite() bool {
	return slices.Contains([]Kind{
		KindAuth, KindNotFound, KindRefNotFound, KindNoCommit, KindHost, KindRefused, KindTLS, KindProtocol,
		KindHostKey, KindHostChanged, KindCredential, KindRedirect, KindShallow,
	}, k)
}

// Error is the failure of a git command.
type Error struct {
	Op     string // the operation, such as "ask the remote for its refs"
	URL    string // of the remote, if one was involved; without secrets
	Kind   Kind
	Stderr string // the end of git's stderr
	Detail string // shown instead of git's message, if set
	Remedy string // what the user can do; empty means the remedy of the kind
	Err    error  // exit status, or the context's cause

	words string // the line of Stderr that determined the kind
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Op)
	if e.URL != "" {
		fmt.Fprintf(&b, " %s", e.URL)
	}
	fmt.Fprintf(&b, ": %s", e.Kind)
	words := cmp.Or(Printable(e.words), lastWords(e.Stderr))
	_, exited := errors.AsType[*exec.ExitError](e.Err)
	switch {
	case e.Detail != "":
		fmt.Fprintf(&b, " (%s)", Printable(e.Detail))
	case words != "":
		fmt.Fprintf(&b, " (git: %s)", words)
	case e.Err != nil && (e.Kind == KindOther || !exited):
		fmt.Fprintf(&b, " (%v)", e.Err)
	}
	if r := e.Advice(); r != "" {
		fmt.Fprintf(&b, ": %s", r)
	}
	return b.String()
}

// Advice returns what the user can do, or "". Error ends with it.
func (e *Error) Advice() string { return cmp.Or(e.Remedy, remedy[e.Kind]) }

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

// KindOf returns the kind of the *Error in err, or "" if err has none.
func KindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	return ""
}

// newError classifies a failure. filled is set if the command may have filled its
// filesystem.
func newError(op, url, stderr string, err error, filled bool) *Error {
	e := &Error{Op: op, URL: url, Kind: KindOther, Stderr: stderr, Err: err}
	limit, limited := errors.AsType[*work.LimitError](err)
	silent, isSilent := errors.AsType[SilentError](err)
	switch {
	case limited:
		e.Kind, e.Detail = KindLimit, limit.Error()
	case isSilent:
		e.Kind, e.Detail = KindTimeout, silent.Error()
	case errors.Is(err, context.DeadlineExceeded):
		e.Kind = KindTimeout
	case errors.Is(err, context.Canceled):
		e.Kind = KindCanceled
	case NoSpace(err):
		e.Kind = KindNoSpace
	default:
		e.Kind, e.words = classify(stderr, url, filled)
	}
	return e
}

// explainLimit sets kind and detail if the command exceeded a limit. Do not call it for a
// command that the plugin itself ended.
func (e *Error) explainLimit(l sandbox.Limits, state *os.ProcessState) {
	if said := l.Exceeded(state, e.Stderr); said != "" {
		e.Kind, e.Detail = KindLimit, said
	} else if e.Kind == KindLimit {
		e.Detail = l.OutOfMemory()
	}
}

// RefNotFound returns the error for a ref that the remote does not have.
func RefNotFound(url, ref string) error {
	return &Error{Op: fmt.Sprintf("find ref %q at", ref), URL: url, Kind: KindRefNotFound}
}

// NoCommit returns the error for a remote's ref that does not point to a commit.
func NoCommit(url, ref string) error {
	return &Error{Op: fmt.Sprintf("check out ref %q of", ref), URL: url, Kind: KindNoCommit}
}

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
	{regexp.MustCompile(`(?i)no space left on device|disk quota exceeded|^error: unable to write file`), KindNoSpace},
	{regexp.MustCompile(`transport '[^']*' not allowed`), KindProtocol},
	{regexp.MustCompile(`^fatal: source repository is shallow`), KindShallow},
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

// remoteMayChoose reports whether a remote's error message may determine the kind.
func (k Kind) remoteMayChoose() bool {
	return k == KindAuth || k == KindNotFound || k == KindRefNotFound
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

// Damaged returns the error for a store that can't be read.
func Damaged(store string, err error) error {
	return &Error{Op: "read the store", Kind: KindCorrupt, Detail: fmt.Sprintf("%s: %v", store, err), Err: err}
}

// NoAnswer returns the error for a question that got no answer in time.
func NoAnswer(url string, err error) error {
	return &Error{Op: "ask for the refs of", URL: url, Kind: KindTimeout, Detail: err.Error(), Err: err}
}

// EmptyRemote returns the error for a remote that has no commit to check out.
func EmptyRemote(url string) error {
	return &Error{
		Op: "find the default branch of", URL: url, Kind: KindRefNotFound,
		Detail: "its HEAD does not point to a commit",
		Remedy: "push a first commit if the repository is empty, name a branch in the option ref, or check that the URL is a repository's",
	}
}

// NoSpace reports whether err says that the disk, or a quota, is full.
func NoSpace(err error) bool {
	return KindOf(err) == KindNoSpace || errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)
}
