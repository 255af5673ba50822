package credential

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
)

func newKey(t *testing.T) ed25519.PrivateKey {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func publicKey(t *testing.T, key crypto.Signer) ssh.PublicKey {
	t.Helper()
	public, err := ssh.NewPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	return public
}

func openSSH(t *testing.T, key crypto.PrivateKey) string {
	t.Helper()
	block, err := ssh.MarshalPrivateKey(key, hidden)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(block))
}

func withPassphrase(t *testing.T, key crypto.PrivateKey) string {
	t.Helper()
	block, err := ssh.MarshalPrivateKeyWithPassphrase(key, "", []byte(hidden))
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(block))
}

func pemText(kind string, der []byte, headers map[string]string) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der, Headers: headers}))
}

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func TestSSHKeys(t *testing.T) {
	edwards := newKey(t)
	rsaKey := must[*rsa.PrivateKey](t)(rsa.GenerateKey(rand.Reader, 2048))
	curve := must[*ecdsa.PrivateKey](t)(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	s := open(t, t.TempDir())
	for _, tt := range []struct {
		name, text string
		key        crypto.Signer
	}{
		{"OpenSSH Ed25519", openSSH(t, edwards), edwards},
		{"OpenSSH RSA", openSSH(t, rsaKey), rsaKey},
		{"OpenSSH ECDSA", openSSH(t, curve), curve},
		{"PKCS 1", pemText("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(rsaKey), nil), rsaKey},
		{"SEC 1", pemText("EC PRIVATE KEY", must[[]byte](t)(x509.MarshalECPrivateKey(curve)), nil), curve},
		{"PKCS 8", pemText("PRIVATE KEY", must[[]byte](t)(x509.MarshalPKCS8PrivateKey(curve)), nil), curve},
		{"from Windows, without an end", strings.TrimRight(strings.ReplaceAll(openSSH(t, edwards), "\n", "\r\n"), "\r\n"), edwards},
	} {
		if err := s.Put(Credential{Name: "k", Kind: SSHKey, Scope: "ssh://git@h", Secret: NewSecret(tt.text)}); err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		want := ssh.FingerprintSHA256(publicKey(t, tt.key))
		if got := s.List()[0].Fingerprints; len(got) != 1 || got[0] != want {
			t.Errorf("%s: got %q, want %q", tt.name, got, want)
		}
		m, err := s.Match(parse(t, "git@h:o/r"), "x", "", Fetch)
		if file := m.Secret.Reveal(); err != nil || m.Kind != SSHKey || strings.Contains(file, "\r") || !strings.HasSuffix(file, "-----\n") {
			t.Errorf("%s: got %v, %v", tt.name, m, err)
		}
	}
}

func TestSSHKeysRefused(t *testing.T) {
	key := newKey(t)
	// Only the sizes are checked.
	p, q, one := new(big.Int).Lsh(big.NewInt(1), 1023), new(big.Int).Lsh(big.NewInt(1), 159), big.NewInt(1)
	dsa := must[[]byte](t)(asn1.Marshal([]*big.Int{big.NewInt(0), p, q, big.NewInt(2), one, one}))
	for _, tt := range []struct{ name, text, want string }{
		{"none", "", "it has 0 bytes"},
		{"huge", strings.Repeat("x", maxFile+1), "not a private key"},
		{"text", hidden, "not a private key in OpenSSH or PEM format"},
		{"cut", openSSH(t, key)[:200], "not a private key in OpenSSH"},
		{"public", string(ssh.MarshalAuthorizedKey(publicKey(t, key))), "is a public key"},
		{"passphrase", withPassphrase(t, key), "ssh-keygen -p -N ''"},
		{"PEM with passphrase", pemText("RSA PRIVATE KEY", []byte(hidden), map[string]string{"Proc-Type": "4,ENCRYPTED", "DEK-Info": "x"}), "with a passphrase"},
		{"PKCS 8 with passphrase", pemText("ENCRYPTED PRIVATE KEY", []byte(hidden), nil), "with a passphrase"},
		{"certificate", pemText("CERTIFICATE", []byte(hidden), nil), "not a private key in OpenSSH"},
		{"named like a secret", pemText(hidden, []byte("x"), nil), "not a private key in OpenSSH"},
		{"DSA", pemText("DSA PRIVATE KEY", dsa, nil), "is a key of type ssh-dss"},
	} {
		err := open(t, t.TempDir()).Put(Credential{Name: "k", Kind: SSHKey, Scope: "ssh://git@h", Secret: NewSecret(tt.text)})
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q", tt.name, err, tt.want)
			continue
		}
		shows(t, tt.name, err.Error())
	}
}
