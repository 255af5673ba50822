package git

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"

	"github.com/helmdeck/repos/internal/credential"
	"github.com/helmdeck/repos/internal/git/giterror"
	"github.com/helmdeck/repos/internal/git/githttp"
	"github.com/helmdeck/repos/internal/git/gitssh"
)

// explain adds details for the user to an error of git: which key a host presents, what is
// wrong with a certificate, which credential was refused.
func (g *Git) explain(ctx context.Context, r Remote, url string, auth *Auth, err error) {
	e, ok := errors.AsType[*giterror.Error](err)
	switch {
	case !ok:
	case e.Kind == giterror.KindHostKey:
		if strings.Contains(e.Stderr, "IDENTIFICATION HAS CHANGED") {
			e.Kind = giterror.KindHostChanged
		}
		// The user can store the line. Without a line, the error has git's message.
		if line, fingerprint, err := gitssh.ScanHostKey(ctx, url, r.Pin); err == nil {
			e.Detail = fmt.Sprintf("the host shows %s; its line is %q", fingerprint, line)
		}
	case e.Kind == giterror.KindNotFound && isHTTP(url) && strings.Contains(e.Stderr, "not valid: is this a git repository"):
		if page, ok := errors.AsType[*githttp.PageError](g.probe(ctx, r, url, auth)); ok {
			e.Kind, e.Detail = giterror.KindPage, page.Error()
		}
	case e.Kind == giterror.KindTLS:
		g.explainTLS(ctx, r, url, e)
	case e.Kind == giterror.KindAuth && auth != nil && auth.Name != "":
		g.explainAuth(ctx, auth, e)
	}
}

// explainTLS verifies the certificate again, because libcurl has the same message for all
// problems.
func (g *Git) explainTLS(ctx context.Context, r Remote, remote string, e *giterror.Error) {
	err := g.probe(ctx, r, remote, nil)
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

// explainAuth names the credential that was refused. From version 2.46 on git sends
// bearer tokens from a credential helper.
func (g *Git) explainAuth(ctx context.Context, auth *Auth, e *giterror.Error) {
	e.Remedy = credential.Refused(auth.Name) + ": it may have expired, or lack the right to read this repository"
	if auth.Bearer == "" {
		return
	}
	if version, err := g.version(ctx); err == nil && older(version, "2.46") {
		e.Kind = giterror.KindCredential
		e.Detail = fmt.Sprintf("credential %q is a bearer token, which git sends from version 2.46 on, and this is git %s", auth.Name, version)
		e.Remedy = "use the kind https, with a user"
	}
}
