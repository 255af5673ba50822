package git

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
)

// Auth is a credential, and the known hosts to verify the server by. Formatting it shows
// nothing.
type Auth struct {
	Name           string // of the credential, for errors; empty without a credential
	User, Password string // basic
	Bearer         string // instead of a password
	SSHKey         []byte // a private key without passphrase, PEM
	KnownHosts     []byte // lines of an OpenSSH known_hosts file
}

// String hides the credential.
func (*Auth) String() string { return "(hidden)" }

// GoString hides the credential.
func (*Auth) GoString() string { return "(hidden)" }

// credentialFD is the child's descriptor for the credential: the first of
// exec.Cmd.ExtraFiles.
const credentialFD = 3

// credentialBlocks is how often one command can ask for its credential: once, and again
// if a server treats a new connection as a new client.
const credentialBlocks = 8

// pipeRoom is how many bytes fit into a pipe without a reader (pipe(7): 64 KiB).
const pipeRoom = 60 << 10

// httpAuth returns the configuration for a credential helper, and the pipe that it reads
// a from. The secret is in no argument, file or environment. The helper is a short shell
// function, which answers only for rawURL and with the content of the pipe.
func httpAuth(rawURL string, a *Auth) (config []string, pipe *os.File, err error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, nil, fmt.Errorf("credential for %s: %w", rawURL, err)
	}
	block := "username=" + a.User + "\npassword=" + a.Password + "\n\n"
	if a.Bearer != "" {
		block = "capability[]=authtype\nauthtype=Bearer\ncredential=" + a.Bearer + "\n\n"
	}
	if strings.Count(block, "\n") != 3 && a.Bearer == "" || len(block)*2 > pipeRoom {
		return nil, nil, errors.New("the credential contains a line break, or is too long")
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	defer w.Close()
	for range min(credentialBlocks, pipeRoom/len(block)) {
		if _, err := w.WriteString(block); err != nil {
			return nil, nil, errors.Join(err, r.Close())
		}
	}
	// git writes its request to the helper's stdin. The configuration section has matched
	// host and path; check scheme and host once more.
	helper := fmt.Sprintf(`!f() { [ "$1" = get ] || exit 0; p= h=; while IFS= read -r l && [ -n "$l" ]; do case $l in protocol=%s) p=1;; host=%s) h=1;; esac; done; [ "$p$h" = 11 ] || exit 0; while IFS= read -r l <&%d && [ -n "$l" ]; do printf '%%s\n' "$l"; done; }; f`,
		shellQuote(u.Scheme), shellQuote(u.Host), credentialFD)
	return []string{
		"credential.useHttpPath", "true",
		"credential." + rawURL + ".helper", helper,
	}, r, nil
}

// shellQuote quotes s for the pattern of a shell case.
func shellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// configEnv returns the environment variables that pass configuration, in which a key may
// have any character. Nothing in it is secret.
func configEnv(pairs []string) []string {
	if len(pairs) == 0 {
		return nil
	}
	env := []string{fmt.Sprintf("GIT_CONFIG_COUNT=%d", len(pairs)/2)}
	for i := 0; i+1 < len(pairs); i += 2 {
		env = append(env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", i/2, pairs[i]), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", i/2, pairs[i+1]))
	}
	return env
}
