package githttp

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestRefused checks the errors for answers that can't be used, and how often each server is asked.
func TestRefused(t *testing.T) {
	t.Parallel()
	endless := func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			answer(w, r)
			return
		}
		w.Header().Set("Content-Type", typePrefix+"-result")
		for _, err := io.WriteString(w, strings.TrimSuffix(refs, "0000")); err == nil; _, err = io.WriteString(w, strings.TrimSuffix(refs, "0000")) {
		}
	}
	post := func(kind, text string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet {
				answer(w, r)
				return
			}
			reply(w, kind, text)
		}
	}
	other := func(err error) bool { return errors.Is(err, ErrOtherProtocol) }
	page := func(html bool) func(error) bool {
		return func(err error) bool {
			p, ok := errors.AsType[*PageError](err)
			return ok && p.HTML == html
		}
	}
	get := func(kind, text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { reply(w, kind, text) }
	}
	status := func(code int) func(error) bool {
		return func(err error) bool {
			s, ok := errors.AsType[*StatusError](err)
			return ok && s.Code == code && (s.Location != nil) == (code/100 == 3)
		}
	}
	wrong := func(text string) func(error) bool {
		return func(err error) bool {
			a, ok := errors.AsType[*AnswerError](err)
			return ok && strings.Contains(a.Error(), text)
		}
	}
	for name, c := range map[string]struct {
		handle http.HandlerFunc
		want   func(error) bool
		tries  int
	}{
		"protocol 0": {func(w http.ResponseWriter, _ *http.Request) {
			reply(w, advertisement, "001e# service=git-upload-pack\n00000006x\n")
		}, other, 1},
		"dumb HTTP": {func(w http.ResponseWriter, _ *http.Request) { reply(w, "text/plain", commit+"\trefs/heads/x\n") }, other, 1},
		"a coding": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			answer(w, r)
		}, other, 1},
		"other type":             {post("application/octet-stream", refs), other, 2},
		"a page":                 {get("text/html; charset=utf-8", "<!DOCTYPE html>\n<html>\n"), page(true), 1},
		"a page of one line":     {get("text/html", "<html>Sign in</html>"), page(true), 1},
		"a page of another type": {get("text/plain", "\ufeff\n <html>\n"), page(true), 1},
		"an empty page":          {get("text/html", ""), page(true), 1},
		"a text":                 {get("text/plain; charset=utf-8", "OK"), page(false), 1},
		"a page, from a proxy": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			w.WriteHeader(203)
		}, page(true), 1},
		"dumb HTTP without refs":       {get("text/plain", ""), other, 1},
		"dumb HTTP with the type HTML": {get("text/html", commit+"\trefs/heads/x\n"), other, 1},
		"a page in place of refs":      {post("text/html", "<html>\n"), page(true), 2},
		"a redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/other/info/refs", http.StatusFound)
		}, status(http.StatusFound), 1},
		"not found": {http.NotFound, status(404), 1},
		"a reason": {func(w http.ResponseWriter, _ *http.Request) { // which may be the credential
			c, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			io.WriteString(c, "HTTP/1.1 403 s3cr3t\r\n\r\n")
		}, func(err error) bool { return err != nil && err.Error() == "the server answered 403 Forbidden" }, 1},
		"in trouble": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) }, status(503), 1},
		"endless":    {endless, wrong("more than 128 MiB"), 2},
		"nonsense":   {post(typePrefix+"-result", "0009what\n"), wrong("what"), 2},
		"a format": {func(w http.ResponseWriter, _ *http.Request) {
			reply(w, advertisement, "000eversion 2\n"+"0014object-format=x\n"+"0000")
		}, wrong("format"), 1},
		"its error":   {post(typePrefix+"-result", "000bERR no\n"), wrong("remote error: no"), 2},
		"first error": {func(w http.ResponseWriter, _ *http.Request) { reply(w, advertisement, "000bERR no\n") }, wrong("remote error: no"), 1},
		"a huge header": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X", strings.Repeat("x", 2*maxHeader))
			answer(w, r)
		}, func(err error) bool { return err != nil && strings.Contains(err.Error(), "header") }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := serve(t, nil)
			f.set(c.handle)
			if err := f.ask(f.client(), Remote{URL: f.URL + "/r"}); !c.want(err) {
				t.Errorf("got %v", err)
			}
			if requests, _ := f.took(); len(requests) != c.tries {
				t.Errorf("requests %q, want %d", requests, c.tries)
			}
		})
	}
}
