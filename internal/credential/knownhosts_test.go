package credential

import (
	"slices"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

func TestKnownHosts(t *testing.T) {
	key, other := publicKey(t, newKey(t)), publicKey(t, newKey(t))
	text := func(k ssh.PublicKey) string { return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(k))) }
	line := func(field string) string { return field + " " + text(key) }
	for _, tt := range []struct {
		name, scope, in string
		want            string // the stored lines, or part of the error
		ok              bool
	}{
		{"plain", "ssh://h", line("h"), line("h") + "\n", true},
		{"comments", "ssh://h", "# h:22 SSH-2.0\r\n\r\n  " + line("h") + " me@x \r\n", line("h") + " me@x\n", true},
		{"several names", "ssh://h", line("g,h,i"), line("g,h,i") + "\n", true},
		{"capitals", "ssh://h", line("H"), line("H") + "\n", true},
		{"other hosts are left out", "ssh://h", line("a") + "\n" + line("h") + "\n" + line("b"), line("h") + "\n", true},
		{"port", "ssh://h:2222", line("h") + "\n" + line("[h]:2222"), line("[h]:2222") + "\n", true},
		{"default port", "ssh://h:22/", line("h"), line("h") + "\n", true},
		{"IPv6", "ssh://[::1]", line("::1"), line("::1") + "\n", true},
		{"IPv6 with port", "ssh://[::1]:2222", line("[::1]:2222"), line("[::1]:2222") + "\n", true},
		{"wildcard", "ssh://git.example.com", line("*.ex?mple.com"), line("*.ex?mple.com") + "\n", true},
		{"authority", "ssh://h", "@cert-authority " + line("*"), "@cert-authority " + line("*") + "\n", true},
		{"revoked", "ssh://h", line("h") + "\n@revoked * " + text(other), line("h") + "\n@revoked * " + text(other) + "\n", true},

		{"nothing", "ssh://h", "", "no line for the host h: get them with ssh-keyscan", false},
		{"of others", "ssh://h", line("g"), "no line for the host h", false},
		{"other port", "ssh://h:2222", line("h"), "no line for the host [h]:2222", false},
		{"negated", "ssh://h", line("*,!h"), "no line for the host h", false},
		{"only revoked", "ssh://h", "@revoked " + line("h"), "no line for the host h", false},
		{"no wildcard of regexp", "ssh://hxh", line("h.h"), "no line", false},
		{"not UTF-8", "ssh://h", line("\xff*"), "no line", false},
		{"no such marker", "ssh://h", "@trusted " + line("h"), "number 1", false},
		{"hash of another kind", "ssh://h", line("|2|eA==|eA=="), "no line", false},
		{"hash that is none", "ssh://h", line("|1|-|-"), "no line", false},
		{"one word", "ssh://h", "\n" + hidden, "a line, number 2,", false},
		{"no key", "ssh://h", line("h") + "\nh ssh-ed25519 " + hidden, "number 2", false},
		{"type of another", "ssh://h", "h ssh-rsa " + strings.Fields(text(key))[1], "number 1", false},
		{"private key", "ssh://h", openSSH(t, newKey(t)), "number 1", false},
		{"huge", "ssh://h", strings.Repeat("#\n", maxFile), "longer than", false},
		{"user", "ssh://git@h", line("h"), "scope of known hosts is a host: ssh://h", false},
		{"path", "ssh://h:2222/o", line("h"), "ssh://h:2222", false},
		{"https", "https://h", line("h"), "has a scheme that does not fit", false},
	} {
		s := open(t, t.TempDir())
		err := s.Put(Credential{Name: "k", Kind: KnownHosts, Scope: tt.scope, Secret: NewSecret(tt.in)})
		if !tt.ok {
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%s: got %v, want %q", tt.name, err, tt.want)
				continue
			}
			shows(t, tt.name, err.Error())
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		m, err := s.Match(parse(t, strings.TrimSuffix(tt.scope, "/")+"/o/r"), "x", "", Fetch)
		if err != nil || m.KnownHosts != tt.want || m.Kind != "" {
			t.Errorf("%s: got %q, %v, want %q", tt.name, m.KnownHosts, err, tt.want)
		}
		if got, want := s.List()[0].Fingerprints, []string{ssh.FingerprintSHA256(key)}; !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", tt.name, got, want)
		}
	}
}

// TestKnownHostsHashed checks hashed names, as OpenSSH and x/crypto write them.
func TestKnownHostsHashed(t *testing.T) {
	key := strings.TrimSpace(string(ssh.MarshalAuthorizedKey(publicKey(t, newKey(t)))))
	for scope, name := range map[string]string{"ssh://h": "h", "ssh://h:2222": "[h]:2222", "ssh://[::1]": "::1"} {
		line := knownhosts.HashHostname(name) + " " + key
		for otherScope := range map[string]bool{"ssh://h": true, "ssh://h:2222": true, "ssh://[::1]": true} {
			err := open(t, t.TempDir()).Put(Credential{Name: "k", Kind: KnownHosts, Scope: otherScope, Secret: NewSecret(line)})
			if (err == nil) != (scope == otherScope) {
				t.Errorf("%q in %q: %v", name, otherScope, err)
			}
		}
	}
}
