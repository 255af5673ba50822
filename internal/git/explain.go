package git

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// explain adds to an error of git what the user needs to know: which key a host presents,
// what is wrong with a certificate, which credential was refused.
func (g *Git) explain(ctx context.Context, r Remote, url string, auth *Auth, err error) {
	var e *Error
	if !errors.As(err, &e) {
		return
	}
	switch e.Kind {
	case KindHostKey:
		e.explainHostKey(ctx, r, url)
	case KindTLS:
		g.explainTLS(ctx, r, url, e)
	case KindAuth:
		g.explainAuth(ctx, auth, e)
	}
}

// explainHostKey adds the host's key, which the user can store.
func (e *Error) explainHostKey(ctx context.Context, r Remote, url string) {
	if strings.Contains(e.Stderr, "IDENTIFICATION HAS CHANGED") {
		e.Kind = KindHostChanged
	}
	line, fingerprint, err := scanHostKey(ctx, url, r.Pin)
	if err != nil {
		return // git's message must do
	}
	e.Detail = fmt.Sprintf("the host shows %s; its line is %q", fingerprint, line)
}

// explainTLS verifies the certificate again, because libcurl has the same message for all
// problems.
func (g *Git) explainTLS(ctx context.Context, r Remote, remote string, e *Error) {
	response, err := g.askHTTP(ctx, r, remote, nil)
	if err == nil {
		response.Body.Close()
		return
	}
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &unknown):
		e.Detail = unknown.Error()
	case errors.As(err, &name):
		e.Detail = name.Error()
		e.Remedy = "use the name that the certificate is for, or ask the host's owner to add this one to it"
	case errors.As(err, &invalid):
		e.Detail = invalid.Error()
		if invalid.Reason == x509.Expired {
			e.Remedy = "ask the host's owner to renew it, and check the clock of this machine"
		}
	}
}

// bearerSince is the first version of git that sends bearer tokens from a credential
// helper.
const bearerSince = "2.46"

// explainAuth names the credential that was refused.
func (g *Git) explainAuth(ctx context.Context, auth *Auth, e *Error) {
	if auth == nil || auth.Name == "" {
		return
	}
	e.Remedy = fmt.Sprintf("the remote refused the stored credential %q: it may have expired, or lack the right to read this repository", auth.Name)
	if auth.Bearer == "" {
		return
	}
	version, major, minor, err := g.version(ctx)
	if err == nil && (major < 2 || major == 2 && minor < 46) {
		e.Kind = KindCredential
		e.Detail = fmt.Sprintf("credential %q is a bearer token, which git sends from version %s on, and this is git %s", auth.Name, bearerSince, version)
		e.Remedy = "use the kind https, with a user"
	}
}

// version returns git's version.
func (g *Git) version(ctx context.Context) (text string, major, minor int, err error) {
	out, err := g.Run(ctx, Command{Op: "ask for the version", question: true, Args: []string{"version"}, Dir: "/", UID: g.uid, GID: g.gid})
	if err != nil {
		return "", 0, 0, err
	}
	text = strings.TrimSpace(strings.TrimPrefix(string(out), "git version "))
	_, err = fmt.Sscanf(text, "%d.%d", &major, &minor)
	return text, major, minor, err
}

// askHTTP sends git's first request to a remote. It follows no redirect.
func (g *Git) askHTTP(ctx context.Context, r Remote, remote string, auth *Auth) (*http.Response, error) {
	from, err := url.Parse(remote)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, remote+infoRefs+"?service=git-upload-pack", nil)
	if err != nil {
		return nil, err
	}
	switch {
	case auth == nil:
	case auth.Bearer != "":
		request.Header.Set("Authorization", "Bearer "+auth.Bearer)
	case auth.Password != "":
		request.SetBasicAuth(auth.User, auth.Password)
	}
	client := http.Client{
		Transport:     &http.Transport{TLSClientConfig: g.tls, Proxy: g.proxy, DisableKeepAlives: true, DialContext: pinDial(from, r.Pin)},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Timeout:       askHTTPTimeout,
	}
	return client.Do(request)
}
