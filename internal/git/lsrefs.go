package git

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/helmdeck/repos/internal/gitref"
)

// LsRefs asks a remote for the refs with the given full names and for HEAD. A name that
// ends with a slash stands for all refs below it, up to gitref.MaxListed.
//
// Over HTTP it speaks protocol 2 through git's own transport helper, which connects and
// authenticates as in a fetch: with the names as prefixes, a remote with 100,000 refs
// lists only the wanted ones. Otherwise git ls-remote receives all and filters.
func (g *Git) LsRefs(ctx context.Context, remote Remote, names ...string) (gitref.Answer, error) {
	if isHTTP(remote.URL) {
		answer, err := g.ask(ctx, remote, true, func(url string) []string {
			scheme, _, _ := strings.Cut(url, "://")
			return []string{"remote-" + scheme, "origin", url}
		}, func(stdin io.WriteCloser, stdout io.Reader) (gitref.Answer, error) {
			return lsRefs(stdin, stdout, names)
		})
		if !errors.Is(err, errFallback) {
			return answer, err
		}
	}
	patterns := []string{"HEAD"}
	for _, n := range names {
		// ls-remote matches the end of a name; gitref compares the whole.
		if strings.HasSuffix(n, "/") {
			patterns = append(patterns, n+"*")
		} else {
			patterns = append(patterns, n, n+gitref.PeeledSuffix)
		}
	}
	return g.ask(ctx, remote, false, func(url string) []string {
		return slices.Concat([]string{"ls-remote", "--quiet", "--symref", "--end-of-options", url}, patterns)
	}, func(_ io.WriteCloser, stdout io.Reader) (gitref.Answer, error) {
		return gitref.ReadLsRemote(stdout, names)
	})
}

// ask executes git with the arguments that args returns for the remote's URL, and returns
// the answer that talk reads.
func (g *Git) ask(
	ctx context.Context, remote Remote, dialog bool, args func(url string) []string,
	talk func(stdin io.WriteCloser, stdout io.Reader) (gitref.Answer, error),
) (answer gitref.Answer, err error) {
	const op = "ask for the refs of"
	var talkErr error
	_, err = g.runRemote(ctx, remote, Command{Op: op, question: true, Dir: "/", dialog: dialog, talk: func(stdin io.WriteCloser, stdout io.Reader) error {
		answer, talkErr = talk(stdin, stdout)
		return talkErr
	}}, func(url string) []string {
		// Make curl end a question when the remote accepts the request and then sends
		// nothing.
		return append([]string{"-c", "http.lowSpeedLimit=1", "-c", "http.lowSpeedTime=60"}, args(url)...)
	})
	if err == nil || !errors.Is(err, talkErr) || errors.Is(err, errFallback) {
		return answer, err
	}
	if said, ok := errors.AsType[gitref.RemoteError](err); ok {
		return answer, newError(op, remote.URL, said.Error(), err, false)
	}
	return answer, &Error{Op: op, URL: remote.URL, Kind: KindServer, Detail: err.Error(), Err: err}
}

const (
	// stateless is the first command to a transport helper. The helper answers with an
	// empty line and the server's capabilities, or with fallback.
	stateless = "stateless-connect git-upload-pack\n"
	// fallback is the answer of a helper that can't connect statelessly to the server.
	fallback = "fallback\n"
)

// errFallback means that a transport helper answered fallback.
var errFallback = errors.New("the transport can't connect without state")

// lsRefs asks for refs over the stdin and stdout of a transport helper.
func lsRefs(stdin io.WriteCloser, stdout io.Reader, names []string) (gitref.Answer, error) {
	defer stdin.Close()
	if _, err := io.WriteString(stdin, stateless); err != nil {
		return gitref.Answer{}, err
	}
	helper := bufio.NewReader(stdout)
	switch line, err := helper.ReadSlice('\n'); {
	case string(line) == fallback:
		return gitref.Answer{}, errFallback
	case err == io.EOF && strings.HasPrefix(fallback, string(line)):
		return gitref.Answer{}, io.ErrUnexpectedEOF
	case string(line) != "\n":
		return gitref.Answer{}, fmt.Errorf("the transport answered %.20q", line)
	}
	d := gitref.NewDecoder(helper)
	format, err := d.Capabilities()
	if err != nil {
		return gitref.Answer{}, err
	}
	// This does not block: the request fits into the pipe, which is empty, because the
	// names are few. If the helper has ended, its error says why.
	_, _ = stdin.Write(gitref.Request(format, names))
	stdin.Close()
	return d.Refs(format, names)
}
