package main

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/gitserver"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/tests/testdir"
	"github.com/helmdeck/repos/tests/testdisk"
	"github.com/helmdeck/repos/tests/testgit"
)

// admin returns a client of the admin socket.
func (p *process) admin() *api.Client {
	return api.Dial(filepath.Join(filepath.Dir(p.at.socket), adminSocket))
}

// checks returns those of a name that the plugin answers, asking remotes too.
func (p *process) checks(name string) []api.Check {
	p.t.Helper()
	h, err := p.admin().Health(p.t.Context(), true)
	if err != nil {
		p.t.Fatal(err)
	}
	var list []api.Check
	for _, c := range h.Checks {
		if c.Name == name {
			list = append(list, c)
		}
	}
	return list
}

// plant stores volumes before the plugin starts, as they were made when the remotes still answered.
func plant(t *testing.T, base string, options ...map[string]string) {
	t.Helper()
	data := filepath.Join(base, "data")
	if err := os.MkdirAll(data, 0o755); err != nil {
		t.Fatal(err)
	}
	db, _, err := meta.Open(filepath.Join(data, "meta.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for i, o := range options {
		v := meta.Volume{Name: fmt.Sprint("planted", i), Options: o, CreatedAt: time.Now()}
		if err := db.Update(func(tx *meta.Tx) error { return tx.PutVolume(v) }); err != nil {
			t.Fatal(err)
		}
	}
}

// tlsRemote starts a server over TLS with one repository, "sample".
func tlsRemote(t *testing.T, flaws ...gitserver.Flaw) *gitserver.Server {
	t.Helper()
	s, err := gitserver.StartTLS(testdir.New(t, "remote"), flaws...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	testgit.Generate(t, s, "sample", gitserver.Spec{Seed: 1, Files: 3, Commits: 1})
	return s
}

// wantCheck checks that one of the checks of a name has a status, and all the words in its text or remedy.
func (p *process) wantCheck(name, status string, words ...string) {
	p.t.Helper()
	list := p.checks(name)
	for _, c := range list {
		found := c.Status == status
		for _, w := range words {
			found = found && strings.Contains(c.Target+" "+c.Text+" "+c.Remedy, w)
		}
		if found && (c.Remedy == "") == (status == api.OK) {
			return
		}
	}
	p.t.Errorf("%s: want %s with %q, got %+v", name, status, words, list)
}

// TestHealthOfRemotes checks that each fault of a remote is found, beside one without a fault.
func TestHealthOfRemotes(t *testing.T) {
	good, guarded, expired := tlsRemote(t), remote(t), tlsRemote(t, gitserver.Expired)
	strange, gone := tlsRemote(t), remote(t)
	t.Setenv("CA_BUNDLE", string(good.CA())+string(expired.CA()))
	guarded.Protect("sample", gitserver.Login{User: "u", Password: "right"})
	unreachable := gone.URL("sample")
	gone.Close()
	base := scratch(t)
	var volumes []map[string]string
	for _, u := range []string{
		good.URL("sample"), guarded.URL("sample"), expired.URL("sample"), strange.URL("sample"), unreachable,
		"https://no-such-host.invalid/r", "ssh://git@127.0.0.1/r",
	} {
		volumes = append(volumes, map[string]string{"repo": u})
	}
	plant(t, base, append(volumes, map[string]string{"repo": guarded.URL("sample"), "credential": "lost"})...)
	p := start(t, base)

	p.wantCheck("remote", api.OK, placeOf(t, good.URL("")), "without a credential, its certificate is trusted")
	p.wantCheck("remote", api.Failed, placeOf(t, guarded.URL("")), "authentication failed", "store a credential")
	p.wantCheck("remote", api.Failed, placeOf(t, expired.URL("")), "certificate has expired", "renew it")
	p.wantCheck("remote", api.Failed, placeOf(t, strange.URL("")), "unknown authority", "CA_BUNDLE")
	p.wantCheck("remote", api.Failed, placeOf(t, unreachable), "connection refused", "nothing listens")
	p.wantCheck("remote", api.Failed, "no-such-host.invalid", "host unknown", "name servers")
	p.wantCheck("remote", api.Failed, "ssh://127.0.0.1", "ALLOW_SCHEMES=ssh")
	p.wantCheck("remote", api.Failed, placeOf(t, guarded.URL("")), `no credential "lost"`, "credentials put")

	put := func(password string) {
		t.Helper()
		err := p.admin().PutCredential(t.Context(), "mine", api.PutCredential{Kind: api.HTTPS, Scope: placeOf(t, guarded.URL("")), User: "u", Secret: password})
		if err != nil {
			t.Fatal(err)
		}
	}
	put("wrong")
	p.wantCheck("remote", api.Failed, `refused the stored credential "mine"`)
	put("right")
	p.wantCheck("remote", api.OK, placeOf(t, guarded.URL("")), `the credential "mine" is accepted`)
	if h, err := p.admin().Health(t.Context(), false); err != nil || strings.Contains(fmt.Sprint(h), "right") {
		t.Errorf("%v %v", h, err)
	} else if h.Status != api.OK && h.Status != api.Warning {
		t.Errorf("without remotes: got %+v", h)
	}
}

// placeOf returns the scheme and host of a URL.
func placeOf(t *testing.T, text string) string {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u.Scheme + "://" + u.Host
}

// TestHealthOfSilentRemote checks that a remote that accepts the connection and never answers does not
// make the check endless.
func TestHealthOfSilentRemote(t *testing.T) {
	r := remote(t)
	release := make(chan struct{})
	r.Route("sample", func(http.Handler) http.Handler {
		return http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-release:
			case <-r.Context().Done():
			}
		})
	})
	defer close(release)
	base := scratch(t)
	plant(t, base, map[string]string{"repo": r.URL("sample")})
	p := startWith(t, base, func(at *places) { at.askTimeout = time.Second })
	p.wantCheck("remote", api.Failed, "timeout", "did not answer in time")
}

// TestHealthOfMachine checks that each fault of the machine and of the settings is found, and that it is
// not found without the fault.
func TestHealthOfMachine(t *testing.T) {
	for _, tt := range []struct {
		name, check string
		words       []string
		plant       func(t *testing.T, p *process, data string)
		settings    map[string]string
		disk        func(dir string) error
	}{
		{
			name: "disk", check: "disk", words: []string{"MIN_FREE", "docker repos df"}, settings: map[string]string{"MIN_FREE": "20%"},
			disk:  func(dir string) error { return testdisk.Ext4(dir, 128<<20) },
			plant: func(t *testing.T, p *process, data string) { occupyShare(t, data, 0.85) },
		},
		{
			name: "inodes", check: "inodes", words: []string{"inodes are free", "docker repos df"}, settings: map[string]string{"MIN_FREE": "20%"},
			disk: func(dir string) error { return testdisk.Ext4(dir, 128<<20, "-N", "1000") },
			plant: func(t *testing.T, p *process, data string) {
				for i := range 850 {
					if err := os.WriteFile(filepath.Join(data, fmt.Sprint("lost+found/", i)), nil, 0o600); err != nil {
						t.Fatal(err)
					}
				}
			},
		},
		{
			name: "limit too small", check: "budget", words: []string{"raise the limit"}, settings: map[string]string{"MAX_SIZE": "4KiB"},
			plant: func(t *testing.T, p *process, _ string) {
				r := remote(t)
				p.create("v", map[string]string{"repo": r.URL("sample")})
				p.mount("v", "1")
				eventually(t, func() error {
					if _, err := p.admin().Sweep(t.Context()); err != nil {
						return err
					}
					if list := p.checks("budget"); list[0].Status == api.OK {
						return fmt.Errorf("got %+v", list)
					}
					return nil
				})
			},
		},
		{
			name: "credential for a scheme that is not allowed", check: "credential", words: []string{"deploy", "ALLOW_SCHEMES=ssh"},
			plant: func(t *testing.T, p *process, _ string) {
				err := p.admin().PutCredential(t.Context(), "deploy", api.PutCredential{Kind: api.KnownHosts, Scope: "ssh://h.example", Secret: knownHost})
				if err != nil {
					t.Fatal(err)
				}
			},
		},
		{
			name: "clock put back", check: "clock", words: []string{"a record of", "set the clock"},
			plant: func(t *testing.T, p *process, _ string) {
				r := remote(t)
				p.create("v", map[string]string{"repo": r.URL("sample")})
				p.stop()
				behind := func(at *places) { at.now = func() time.Time { return time.Now().Add(-time.Hour) } }
				*p = *startWith(t, filepath.Dir(p.at.data), behind)
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for name, value := range tt.settings {
				t.Setenv(name, value)
			}
			base := ""
			if tt.disk != nil {
				base, _ = smallDisk(t, tt.disk)
			} else {
				base = scratch(t)
			}
			p := start(t, base)
			t.Cleanup(func() { p.stop() })
			for _, c := range p.checks(tt.check) {
				if c.Status != api.OK {
					t.Errorf("before the fault: got %+v", c)
				}
			}
			tt.plant(t, p, filepath.Join(base, "data"))
			p.wantCheck(tt.check, api.Failed, tt.words...)
		})
	}
}

// knownHost is a line of known_hosts.
const knownHost = "h.example ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl\n"

// occupyShare writes a file, so that a share of the disk is used.
func occupyShare(t *testing.T, data string, share float64) {
	t.Helper()
	space, err := (&stock{data: data}).Space()
	if err != nil {
		t.Fatal(err)
	}
	size := space.Free.Bytes - int64(float64(space.Total.Bytes)*(1-share))
	if err := os.WriteFile(filepath.Join(data, "lost+found/filler"), make([]byte, size), 0o600); err != nil {
		t.Fatal(err)
	}
}
