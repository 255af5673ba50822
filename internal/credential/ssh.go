package credential

import (
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// maxFile, in bytes, is more than any key, or a host's known_hosts lines, has.
const maxFile = 256 << 10

// keyTypes are those that every current ssh supports: DSA is gone, ML-DSA is too new.
var keyTypes = []string{ssh.KeyAlgoED25519, ssh.KeyAlgoRSA, ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521}

// checkKey returns the fingerprint of a private key, which must not need a passphrase.
func checkKey(text string) ([]string, error) {
	if text == "" || len(text) > maxFile {
		return nil, invalid("secret", "is not a private key: it has %d bytes", len(text))
	}
	var missing *ssh.PassphraseMissingError
	signer, err := ssh.ParsePrivateKey([]byte(text))
	block, _ := pem.Decode([]byte(text))
	switch {
	case errors.As(err, &missing) || block != nil && block.Type == "ENCRYPTED PRIVATE KEY":
		return nil, invalid("secret", "is a private key with a passphrase, which nobody is there to type:"+
			" make a key for this purpose alone (ssh-keygen -t ed25519 -N ''), or take the passphrase off a copy (ssh-keygen -p -N '' -f COPY)")
	case err != nil && block == nil && strings.HasPrefix(text, "ssh-"):
		return nil, invalid("secret", "is a public key: the private one is in the file without .pub")
	case err != nil:
		// The cause may repeat a part of the text.
		return nil, invalid("secret", "is not a private key in OpenSSH or PEM format, of type RSA, ECDSA or Ed25519 and not on a device")
	case !slices.Contains(keyTypes, signer.PublicKey().Type()):
		return nil, invalid("secret", "is a key of type %s, which ssh does not use here: make another one (ssh-keygen -t ed25519 -N '')", signer.PublicKey().Type())
	}
	return []string{ssh.FingerprintSHA256(signer.PublicKey())}, nil
}

// keyFile returns a key in the form that ssh needs: line feeds instead of CRLF, and one
// at the end.
func keyFile(text string) string {
	return strings.TrimRight(strings.ReplaceAll(text, "\r\n", "\n"), "\n") + "\n"
}

// checkKnownHosts returns the lines of text for the scope's host, and the fingerprints of
// the keys that they trust.
func checkKnownHosts(text string, s scope) (lines string, fingerprints []string, err error) {
	if s.user != "" || s.path != "" {
		return "", nil, invalid("scope", "of known hosts is a host: ssh://%s", s.host)
	}
	if len(text) > maxFile {
		return "", nil, invalid("secret", "is longer than %d bytes", maxFile)
	}
	host := knownhosts.Normalize(s.host)
	var b strings.Builder
	number := 0
	for line := range strings.Lines(text) {
		number++
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		marker, patterns, key, _, _, err := ssh.ParseKnownHosts([]byte(line))
		if err != nil || !slices.Contains([]string{"", "cert-authority", "revoked"}, marker) {
			return "", nil, invalid("secret", "has a line, number %d, that does not belong in a known_hosts file (host, type, key)", number)
		}
		if !matchesHost(patterns, host) {
			continue
		}
		b.WriteString(line + "\n")
		if f := ssh.FingerprintSHA256(key); marker != "revoked" && !slices.Contains(fingerprints, f) {
			fingerprints = append(fingerprints, f)
		}
	}
	if fingerprints == nil {
		return "", nil, invalid("secret", "has no line for the host %s:"+
			" get them with ssh-keyscan, and compare the fingerprints with what the owner of the host publishes", host)
	}
	return b.String(), fingerprints, nil
}

// matchesHost reports whether the patterns of a line match host, which has the form of a
// known_hosts file: host or [host]:port.
func matchesHost(patterns []string, host string) bool {
	found := false
	for _, p := range patterns {
		p, not := strings.CutPrefix(p, "!")
		if !matches(p, host) {
			continue
		}
		if not {
			return false
		}
		found = true
	}
	return found
}

func matches(pattern, host string) bool {
	if hashed, ok := strings.CutPrefix(pattern, "|1|"); ok {
		salt, sum, _ := strings.Cut(hashed, "|")
		key, err := base64.StdEncoding.DecodeString(salt)
		mac := hmac.New(sha1.New, key)
		mac.Write([]byte(host))
		return err == nil && base64.StdEncoding.EncodeToString(mac.Sum(nil)) == sum
	}
	text := regexp.QuoteMeta(strings.ToLower(pattern))
	text = strings.NewReplacer(`\*`, `.*`, `\?`, `.`).Replace(text)
	return regexp.MustCompile("^" + text + "$").MatchString(host)
}
