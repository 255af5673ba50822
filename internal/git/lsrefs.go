package git

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/helmdeck/repos/internal/git/giterror"
	"github.com/helmdeck/repos/internal/git/githttp"
	"github.com/helmdeck/repos/internal/git/gitref"
	"github.com/helmdeck/repos/internal/work"
)

// LsRefs asks a remote for the refs with the given full names and for HEAD. A name that
// ends with a slash stands for all refs below it: see gitref.Answer.
//
// Over HTTP it asks in this process, with protocol 2: with the names as prefixes, a remote
// with 100,000 refs lists only the wanted ones. If that fails, git asks, and its error is
// the one that a fetch would have.
func (g *Git) LsRefs(ctx context.Context, remote Remote, names ...string) (gitref.Answer, error) {
	if g.direct(remote.URL) {
		began := time.Now()
		answer, err := g.askDirectly(ctx, remote, names)
		if err == nil || giterror.KindOf(err) != "" {
			g.observe(AskedRemote, ThisProcess, began, err)
			return answer, err
		}
		g.observe(AskedRemote, ThisProcess, began, ErrThroughGit)
	}
	began := time.Now()
	answer, err := g.askThroughGit(ctx, remote, names)
	g.observe(AskedRemote, ThroughGit, began, err)
	return answer, err
}

const opAsk = "ask for the refs of"

// askDirectly asks in this process. If the error has no Kind, git must ask.
func (g *Git) askDirectly(ctx context.Context, remote Remote, names []string) (answer gitref.Answer, err error) {
	began, asked := time.Now(), ctx
	defer func() { g.report(asked, "ls-refs in this process", opAsk, remote.URL, began, err) }()
	ctx, done, err := g.schedule(ctx, work.Question, false, opAsk, remote.URL)
	if err != nil {
		return answer, err
	}
	defer done()
	err = g.follow(ctx, remote, func(url string) error {
		if !g.direct(url) { // after a redirect
			return githttp.ErrOtherProtocol
		}
		return remote.WithAuth(ctx, opAsk, url, func(auth *Auth) (err error) {
			answer, err = g.http.LsRefs(ctx, remote.direct(url, auth), names)
			wrong, isWrong := errors.AsType[*githttp.AnswerError](err)
			switch {
			case err != nil && ctx.Err() != nil:
				return giterror.New(opAsk, url, "", context.Cause(ctx), false)
			case isWrong:
				return answerError(url, wrong.Err)
			}
			return g.finalError(ctx, opAsk, remote, url, auth, err)
		})
	})
	return answer, err
}

// finalError returns err with its Kind if git would get the same answer: a page, a redirect, or a
// refused credential. Some servers lock a user who sends that a few times.
func (g *Git) finalError(ctx context.Context, op string, r Remote, url string, auth *Auth, err error) error {
	status, ok := errors.AsType[*githttp.StatusError](err)
	page, isPage := errors.AsType[*githttp.PageError](err)
	switch {
	case isPage:
		return &giterror.Error{Op: op, URL: url, Kind: giterror.KindPage, Detail: page.Error(), Err: err}
	case ok && status.Location != nil:
		return &giterror.Error{Op: op, URL: url, Kind: giterror.KindRedirect, Err: err}
	case ok && status.Refused:
		refused := &giterror.Error{Op: op, URL: url, Kind: giterror.KindAuth, Detail: status.Error(), Err: err}
		g.explain(ctx, r, url, auth, refused)
		return refused
	}
	return err
}

// direct reports whether this process may ask at a URL. git asks at URLs with a user,
// which it sends, and at those where net/http never uses a proxy.
func (g *Git) direct(remote string) bool {
	u, err := url.Parse(remote)
	if err != nil || !isHTTP(remote) || u.User != nil || !slices.Contains(g.config.Schemes, u.Scheme) {
		return false
	}
	addr, err := netip.ParseAddr(u.Hostname())
	loopback := err == nil && addr.IsLoopback() || u.Hostname() == "localhost"
	return !loopback || len(g.proxies) == 0
}

// direct returns the remote at a URL for a question in this process.
func (r Remote) direct(url string, auth *Auth) githttp.Remote {
	d := githttp.Remote{URL: url, Pin: r.Pin}
	if auth != nil {
		d.User, d.Password, d.Bearer, d.Owner = auth.User, auth.Password, auth.Bearer, auth.Owner
	}
	return d
}

// answerError returns the error for an answer that can't be used.
func answerError(url string, err error) error {
	if _, large := errors.AsType[gitref.LargeError](err); large {
		return &giterror.Error{Op: opAsk, URL: url, Kind: giterror.KindLimit, Detail: err.Error() + " " + SizeSetting, Remedy: largeRefs, Err: err}
	}
	if said, ok := errors.AsType[gitref.RemoteError](err); ok {
		return giterror.New(opAsk, url, said.Error(), err, false)
	}
	return &giterror.Error{Op: opAsk, URL: url, Kind: giterror.KindServer, Detail: err.Error(), Err: err}
}

// askThroughGit asks with git.
//
// Over HTTP it speaks protocol 2 through git's own transport helper, which connects and
// authenticates as in a fetch. Otherwise git ls-remote receives all refs and filters.
func (g *Git) askThroughGit(ctx context.Context, remote Remote, names []string) (gitref.Answer, error) {
	if isHTTP(remote.URL) {
		answer, err := g.ask(ctx, remote, true, func(url string) []string {
			scheme, _, _ := strings.Cut(url, "://")
			return []string{"remote-" + scheme, "origin", url}
		}, func(stdin io.WriteCloser, stdout io.Reader) (gitref.Answer, error) {
			return lsRefs(stdin, stdout, names, g.maxAnswer())
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
	answer, err := g.ask(ctx, remote, false, func(url string) []string {
		return slices.Concat([]string{"ls-remote", "--quiet", "--symref", "--end-of-options", url}, patterns)
	}, func(_ io.WriteCloser, stdout io.Reader) (gitref.Answer, error) {
		return gitref.ReadLsRemote(stdout, names, g.maxAnswer())
	})
	if err == nil && len(answer.IDs) == 0 && isHTTP(remote.URL) {
		err = g.checkPage(ctx, remote) // git may have taken it for a list without refs
	}
	return answer, err
}

// checkPage asks an HTTP remote again, and returns an error of KindPage if a page answers.
func (g *Git) checkPage(ctx context.Context, r Remote) error {
	err := g.follow(ctx, r, func(url string) error {
		return r.WithAuth(ctx, opAsk, url, func(auth *Auth) error {
			return g.finalError(ctx, opAsk, r, url, auth, g.probe(ctx, r, url, auth))
		})
	})
	if giterror.KindOf(err) == giterror.KindPage {
		return err
	}
	return nil // git was answered
}

// ask executes git with the arguments that args returns for the remote's URL, and returns
// the answer that talk reads.
func (g *Git) ask(
	ctx context.Context, remote Remote, dialog bool, args func(url string) []string,
	talk func(stdin io.WriteCloser, stdout io.Reader) (gitref.Answer, error),
) (answer gitref.Answer, err error) {
	var talkErr error
	_, err = g.RunRemote(ctx, remote, Command{Op: opAsk, question: true, Dir: "/", Dialog: dialog, Talk: func(_ context.Context, stdin io.WriteCloser, stdout io.Reader) error {
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
	return answer, answerError(remote.URL, err)
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

// lsRefs asks for refs over the stdin and stdout of a transport helper. The answer may have limit bytes.
func lsRefs(stdin io.WriteCloser, stdout io.Reader, names []string, limit int) (gitref.Answer, error) {
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
	d := gitref.NewDecoder(helper, limit)
	server, err := d.Capabilities()
	if err != nil {
		return gitref.Answer{}, err
	}
	// This does not block: the request fits into the pipe, which is empty, because the
	// names are few. If the helper has ended, its error says why.
	_, _ = stdin.Write(gitref.Request(server, names))
	stdin.Close()
	return d.Refs(server.Format, names)
}
