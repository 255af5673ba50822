// Package githelper gives one run of git its credential for an HTTP remote, over a pipe: the
// secret is in no argument, file or environment.
package githelper

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
)

// Credential is a user with a password, or a bearer token.
type Credential struct {
	User, Password string
	Bearer         string // instead of a password
}

// descriptor is the child's, for the credential: the first of exec.Cmd.ExtraFiles.
const descriptor = 3

// blocks is how often one command can ask for its credential: once, and again if a server
// treats a new connection as a new client.
const blocks = 8

// pipeRoom is how many bytes fit into a pipe without a reader (pipe(7): 64 KiB).
const pipeRoom = 60 << 10

// New returns the configuration for a credential helper, and the pipe that it reads c from:
// the first of the command's ExtraFiles, which the caller closes. The helper is a short
// shell function, which answers only for rawURL and with the content of the pipe.
func New(rawURL string, c Credential) (config []string, pipe *os.File, err error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, nil, fmt.Errorf("credential for %s: %w", rawURL, err)
	}
	if strings.ContainsAny(c.User+c.Password+c.Bearer, "\n\x00") {
		return nil, nil, errors.New("the credential contains a line break")
	}
	block := "username=" + c.User + "\npassword=" + c.Password + "\n\n"
	if c.Bearer != "" {
		block = "capability[]=authtype\nauthtype=Bearer\ncredential=" + c.Bearer + "\n\n"
	}
	if len(block)*2 > pipeRoom {
		return nil, nil, errors.New("the credential is too long")
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	defer w.Close()
	for range min(blocks, pipeRoom/len(block)) {
		if _, err := w.WriteString(block); err != nil {
			return nil, nil, errors.Join(err, r.Close())
		}
	}
	// git writes its request to the helper's stdin. The configuration section has matched
	// host and path; check scheme and host once more.
	helper := fmt.Sprintf(`!f() { [ "$1" = get ] || exit 0; p= h=; while IFS= read -r l && [ -n "$l" ]; do case $l in protocol=%s) p=1;; host=%s) h=1;; esac; done; [ "$p$h" = 11 ] || exit 0; while IFS= read -r l <&%d && [ -n "$l" ]; do printf '%%s\n' "$l"; done; }; f`,
		shellQuote(u.Scheme), shellQuote(u.Host), descriptor)
	return []string{
		"credential.useHttpPath", "true",
		"credential." + rawURL + ".helper", helper,
	}, r, nil
}

// shellQuote quotes s for the pattern of a shell case.
func shellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
