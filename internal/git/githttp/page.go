package githttp

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strings"

	"github.com/helmdeck/repos/internal/git/gitref"
)

// PageError is an answer that comes from no git server: the page of a website, a login, a captive
// portal. git itself takes a page of one line for the list of an empty repository.
type PageError struct {
	HTML bool // otherwise it is some other text
}

// Error repeats nothing of the page, because that may repeat the credential.
func (e *PageError) Error() string {
	if e.HTML {
		return errHTML.Error()
	}
	return errText.Error()
}

var (
	errHTML = errors.New("the server answered with a page of HTML, and not with git's protocol")
	errText = errors.New("the server answered with a text, and not with git's protocol")
)

// sniffed is how much of a response is looked at, in bytes.
const sniffed = 512

// checkPage returns a *PageError unless a response, whose type is none of git's smart protocols, may be
// the list of refs of a server of plain files: lines that begin with an object ID and a tab. That of an
// empty repository has no lines.
func checkPage(response *http.Response) error {
	start, _ := bufio.NewReaderSize(response.Body, sniffed).Peek(sniffed)
	start = bytes.TrimPrefix(start, []byte("\ufeff"))
	id, _, listed := bytes.Cut(start, []byte("\t"))
	kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	html := kind == "text/html" || kind == "application/xhtml+xml" || bytes.HasPrefix(bytes.TrimSpace(start), []byte("<"))
	switch {
	case listed && gitref.IsObjectID(string(id)):
		return nil
	case html:
		return &PageError{HTML: true}
	case len(start) > 0 && strings.HasPrefix(kind, "text/") && !bytes.Contains(start, []byte("\n")):
		return &PageError{}
	}
	return nil
}

// checkResult returns an error if a response is not git's answer to a question.
func checkResult(response *http.Response) error {
	if isOf(response, result) {
		return nil
	}
	if err := checkPage(response); err != nil {
		return err
	}
	return fmt.Errorf("%w: its answer has the type %.100q", ErrOtherProtocol, response.Header.Get("Content-Type"))
}
