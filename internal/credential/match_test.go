package credential

import (
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/helmdeck/repos/internal/volume"
)

func TestMatch(t *testing.T) {
	s := open(t, t.TempDir())
	basic := func(name, scope string, subject volume.Subject) Credential {
		return Credential{Name: name, Kind: HTTPS, Scope: scope, Subject: subject, User: "u", Secret: NewSecret(hidden + name)}
	}
	key := NewSecret(openSSH(t, newKey(t)))
	keyOf := func(name, scope string) Credential {
		return Credential{Name: name, Kind: SSHKey, Scope: scope, Secret: key}
	}
	public := strings.TrimSpace(string(ssh.MarshalAuthorizedKey(publicKey(t, newKey(t)))))
	hostOf := func(name, scope, host string, subject volume.Subject) Credential {
		return Credential{Name: name, Kind: KnownHosts, Scope: scope, Subject: subject, Secret: NewSecret(host + " " + public)}
	}
	put(t, s,
		basic("host", "https://h", ""),
		basic("host-a", "https://h", "a"),
		basic("org", "https://h/org", ""),
		basic("org-a", "https://h/org", "a"),
		basic("repo", "https://h/org/repo.git", ""),
		basic("z-same", "https://h/same", ""),
		basic("y-same", "https://h/same", ""),
		Credential{Name: "bearer", Kind: Bearer, Scope: "https://bearer.example/x", Secret: NewSecret(hidden)},
		basic("port", "https://h:8443", ""),
		basic("clear", "http://clear.example", ""),
		basic("only-a", "https://a.example", "a"),
		keyOf("any-user", "ssh://h"),
		keyOf("git", "ssh://git@h"),
		keyOf("git-org", "git@h:org"),
		hostOf("hosts", "ssh://h", "h", ""),
		hostOf("hosts-a", "ssh://h", "h,x", "a"),
		hostOf("hosts-port", "ssh://h:2222", "[h]:2222", ""),
	)
	hosts, hostsA, hostsPort := "h "+public+"\n", "h,x "+public+"\n", "[h]:2222 "+public+"\n"
	for _, tt := range []struct {
		url     string
		subject volume.Subject
		name    string
		want    string // the name of the credential, or part of the error
		hosts   string
	}{
		{"https://h/x/y", "default", "", "host", ""},
		{"https://h/x/y", "a", "", "host-a", ""},
		{"https://h/org/x", "default", "", "org", ""},
		{"https://h/org/x", "a", "", "org-a", ""},
		{"https://h/org/repo", "default", "", "repo", ""},
		{"https://h/org/repo.git", "a", "", "repo", ""}, // a longer path takes precedence over the subject
		{"https://h/org/repo2", "default", "", "org", ""},
		{"https://h/organization/x", "b", "", "host", ""},
		{"https://H:443/org/x", "default", "", "org", ""},
		{"https://h/same/x", "b", "", "y-same", ""},
		{"https://bearer.example/x/y", "b", "", "bearer", ""},
		{"https://bearer.example/y", "b", "", "", ""},
		{"https://h:8443/x", "b", "", "port", ""},
		{"https://h:8444/x", "b", "", "", ""},
		{"http://h/org/repo", "b", "", "", ""},
		{"http://clear.example/x", "b", "", "clear", ""},
		{"https://clear.example/x", "b", "", "", ""},
		{"https://a.example/x", "a", "", "only-a", ""},
		{"https://a.example/x", "b", "", "", ""},
		{"https://a.example/x", "", "", "", ""},
		{"https://unknown.example/x", "a", "", "", ""},
		{"git://h/org/x", "a", "", "", ""},
		{"git@h:org/x", "b", "", "git-org", hosts},
		{"git@h:org/x", "a", "", "git-org", hosts + hostsA},
		{"git@h:x", "b", "", "git", hosts},
		{"bob@h:org/x", "b", "", "any-user", hosts},
		{"h:org/x", "b", "", "any-user", hosts},
		{"ssh://git@h:2222/org/x", "b", "", "", hostsPort},

		{"https://h/org/repo", "a", "host", "host", ""},
		{"https://h/org/repo", "a", "host-a", "host-a", ""},
		{"git@h:org/x", "b", "any-user", "any-user", hosts},
		{"https://h/org/repo", "b", "none", `there is no credential "none"`, ""},
		{"https://h/org/repo", "b", "../x", "there is no credential", ""},
		{"https://h/other/repo", "b", "org", `credential "org" is for https://h/org, and is not sent to https://h/other/repo`, ""},
		{"https://evil.example/org/repo", "b", "org", "is not sent to", ""},
		{"http://h/org/repo", "b", "org", "is not sent to", ""},
		{"https://h:8443/org/repo", "b", "org", "is not sent to", ""},
		{"git@h:org/repo", "b", "org", "is not sent to", ""},
		{"https://a.example/x", "b", "only-a", `credential "only-a" is not for the subject "b"`, ""},
		{"https://h/x", "b", "only-a", "is not for the subject", ""},
		{"git@h:org/x", "b", "hosts", "holds known hosts", ""},
	} {
		m, err := s.Match(parse(t, tt.url), tt.subject, tt.name, Fetch)
		if tt.name != "" && tt.name != tt.want {
			if err == nil || !strings.Contains(err.Error(), tt.want) || m != (Match{}) {
				t.Errorf("%s as %q with %q: got %v, %v, want %q", tt.url, tt.subject, tt.name, m, err, tt.want)
			} else if strings.Contains(err.Error(), "a.example") && !strings.Contains(tt.url, "a.example") {
				t.Errorf("the error shows another subject's scope: %v", err)
			}
			continue
		}
		if err != nil || m.Name != tt.want || m.KnownHosts != tt.hosts {
			t.Errorf("%s as %q with %q: got %q and hosts %q, %v, want %q and %q", tt.url, tt.subject, tt.name, m.Name, m.KnownHosts, err, tt.want, tt.hosts)
			continue
		}
		if found := tt.want != ""; (m.Secret.Reveal() != "") != found || (m.Kind != "") != found || (m.Scope != "") != found {
			t.Errorf("%s: got %+v", tt.url, m)
		}
	}
}

// TestPushNeedsAllow checks that only credentials that allow it are used to push.
func TestPushNeedsAllow(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	may, mayNot := token("may"), token("may-not")
	may.Scope, may.Allow, mayNot.Scope = "https://h", Push, "https://h/o"
	put(t, s, mayNot)
	u := parse(t, "https://h/o/r")
	for _, name := range []string{"", "may-not"} {
		if _, err := s.Match(u, "a", name, Push); err == nil || !strings.Contains(err.Error(), `credential "may-not" may only fetch: store it again with allow "push"`) {
			t.Errorf("%q: %v", name, err)
		}
	}
	put(t, s, may)
	for access, want := range map[Access]string{Push: "may", Fetch: "may-not"} {
		if m, err := s.Match(u, "a", "", access); err != nil || m.Name != want {
			t.Errorf("%s: got %q, %v, want %q", access, m.Name, err, want)
		}
	}
	if m, err := s.Match(parse(t, "https://public/r"), "a", "", Push); err != nil || m.Name != "" {
		t.Errorf("without a credential: %+v, %v", m, err)
	}
	if list := s.List(); list[0].Allow != Push || list[1].Allow != Fetch {
		t.Errorf("got %+v", list)
	}
}
