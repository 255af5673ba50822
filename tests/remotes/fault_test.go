package remotes

import (
	"bufio"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/tests/short"
	"github.com/helmdeck/repos/tests/testgit"
)

// fault is a fault of a remote.
type fault struct {
	name string
	// repo sets up the fault on a new server, and returns the URL to use.
	repo    func(t *testing.T, s remote) string
	tls     []gitserver.Flaw // the flaws of the server's certificate
	secure  bool             // the server has a certificate
	silent  bool             // the remote is silent, or nearly; the plugin is impatient
	disk    int64            // if not 0, the plugin's data are on a new filesystem of so many bytes
	options []string
	// on is the call that must fail, create or mount, and words must be in its error. If on is
	// empty, both must succeed.
	on    string
	words []string
}

// always puts faults in front of the whole repository.
func always(faults ...gitserver.Fault) func(*testing.T, remote) string {
	return func(_ *testing.T, s remote) string {
		s.Route(app, faults...)
		return s.url
	}
}

// firstRequests puts a fault in front of the first n requests of a kind.
func firstRequests(n int, kind gitserver.Kind, f gitserver.Fault) func(*testing.T, remote) string {
	return func(_ *testing.T, s remote) string {
		s.Script(app, kind, gitserver.Repeat(n, f)...)
		return s.url
	}
}

// failsWith answers every request with a status code.
func failsWith(code int) func(*testing.T, remote) string { return always(gitserver.Fail(code)) }

// gitCommands runs git commands in the server's repository.
func gitCommands(commands ...string) func(*testing.T, remote) string {
	return func(t *testing.T, s remote) string {
		for _, c := range commands {
			testgit.GitAny(t, s.Path(app), strings.Fields(c)...)
		}
		return s.url
	}
}

var faults = []fault{
	{name: "no fault", repo: always()},
	{name: "port refused", repo: func(t *testing.T, s remote) string { return "http://" + testgit.Refusing(t) + "/a/b" }, on: "create", words: []string{"connection refused", "firewall"}},
	{name: "host unknown", repo: func(*testing.T, remote) string { return "https://nowhere.invalid/a/b" },
		on: "create", words: []string{"host unknown", "nowhere.invalid", "check the host's name"}},
	{name: "401", repo: failsWith(401), on: "create", words: []string{"authentication failed", "store a credential"}},
	{name: "403", repo: failsWith(403), on: "create", words: []string{"authentication failed", "403", "store a credential"}},
	{name: "404", repo: failsWith(404), on: "create", words: []string{"repository not found", "check the spelling"}},
	{name: "404 for this repository", repo: func(_ *testing.T, s remote) string { return s.URL("team/nothing") },
		on: "create", words: []string{"repository not found", "check the spelling"}},
	{name: "429, for ever", repo: failsWith(429), on: "mount", words: []string{"server error", "429", "try again"}},
	{name: "429, then 200", repo: firstRequests(1, gitserver.Info, gitserver.Fail(429))},
	{name: "500, for ever", repo: failsWith(500), on: "mount", words: []string{"server error", "500", "try again"}},
	{name: "500, then 200", repo: firstRequests(2, gitserver.Info, gitserver.Fail(500))},
	{name: "502, then 200", repo: firstRequests(1, gitserver.LsRefs, gitserver.Fail(502))},
	{name: "503, then 200", repo: firstRequests(2, gitserver.Fetch, gitserver.Fail(503))},
	{name: "stall before the first byte", silent: true, repo: always(gitserver.Stall(nil)), on: "mount", words: []string{"timeout", "did not answer in time"}},
	{name: "stall before the pack", silent: true, repo: always(gitserver.On(gitserver.Fetch, gitserver.Stall(nil))),
		on: "mount", words: []string{"timeout", "did not answer in time"}},
	{name: "stall in the pack", silent: true, repo: always(gitserver.On(gitserver.Fetch, gitserver.StallAfter(50_000, nil))),
		on: "mount", words: []string{"timeout", "did not answer in time"}},
	{name: "stall in the pack, once", silent: true, repo: firstRequests(1, gitserver.Fetch, gitserver.StallAfter(50_000, nil))},
	{name: "packs for long, keeps alive", silent: true, repo: always(gitserver.Packing(3*stallTimeout, 500*time.Millisecond))},
	{name: "slow drip", repo: always(gitserver.On(gitserver.Fetch, gitserver.Drip(20_000, 400*time.Millisecond)))},
	{name: "pack cut, for ever", repo: always(gitserver.On(gitserver.Fetch, gitserver.Cut(50_000))),
		on: "mount", words: []string{"server error", "try again"}},
	{name: "pack cut, once", repo: firstRequests(1, gitserver.Fetch, gitserver.Cut(50_000))},
	{name: "pack corrupt", repo: always(gitserver.Corrupt(40_000)), on: "mount", words: []string{"corrupt", "try again", "git fsck"}},
	{name: "pack with a wrong checksum", repo: always(gitserver.Corrupt(-1)), on: "mount", words: []string{"corrupt", "try again", "git fsck"}},
	{name: "pack incomplete", repo: func(t *testing.T, s remote) string {
		s.Route(app, gitserver.Incomplete(s.Path(app)))
		return s.url
	}, on: "mount", words: []string{"corrupt", "git fsck"}},
	{name: "repository empty, ref named", repo: func(t *testing.T, s remote) string {
		testgit.GitAny(t, "/", "init", "-q", "--bare", s.Path("team/empty"))
		return s.URL("team/empty")
	}, options: []string{"ref=main"}, on: "create", words: []string{"ref not found", "the repository is empty", "push a first commit", "leave the option ref out"}},
	{name: "ref missing", repo: always(), options: []string{"ref=nothing"}, on: "create", words: []string{"ref not found", `"nothing"`, "name a branch"}},
	{name: "HEAD to nowhere", repo: gitCommands("symbolic-ref HEAD refs/heads/gone"),
		on: "create", words: []string{"ref not found", "HEAD", "name a branch"}},
	{name: "HEAD to nowhere, ref named", repo: gitCommands("symbolic-ref HEAD refs/heads/gone"), options: []string{"ref=main"}},
	{name: "ref deleted before the fetch", repo: func(t *testing.T, s remote) string {
		testgit.GitAny(t, s.Path(app), "update-ref", "refs/pull/7/head", "main")
		s.Script(app, gitserver.LsRefs, nil, func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if err := exec.Command("git", "-C", s.Path(app), "update-ref", "-d", "refs/pull/7/head").Run(); err != nil {
					t.Error(err)
				}
				next.ServeHTTP(w, r)
			})
		})
		return s.url
	}, options: []string{"ref=refs/pull/7/head"}, on: "mount", words: []string{"ref not found", "name a branch"}},
	{name: "TLS: authority unknown", repo: func(t *testing.T, _ remote) string { return serveTLS(t).url },
		on: "create", words: []string{"tls", "unknown authority", "CA_BUNDLE"}},
	{name: "TLS: authority in CA_BUNDLE", secure: true, repo: always()},
	{name: "TLS: another host's name", secure: true, tls: []gitserver.Flaw{gitserver.WrongName}, repo: always(),
		on: "create", words: []string{"tls", "127.0.0.1", "the name that the certificate is for"}},
	{name: "TLS: expired", secure: true, tls: []gitserver.Flaw{gitserver.Expired}, repo: always(),
		on: "create", words: []string{"tls", "expired", "renew it"}},
	{name: "TLS: spoken to in plain text", secure: true, repo: func(_ *testing.T, s remote) string { return strings.Replace(s.url, "https:", "http:", 1) },
		on: "mount", words: []string{"400"}},
	{name: "redirect within the host", repo: func(_ *testing.T, s remote) string {
		s.Route("team/old", gitserver.Redirect(http.StatusMovedPermanently, s.url))
		return s.URL("team/old")
	}},
	{name: "redirect to another host", repo: func(t *testing.T, s remote) string {
		other := serve(t)
		s.Route("team/old", gitserver.Redirect(http.StatusFound, other.url))
		return s.URL("team/old")
	}, on: "create", words: []string{"redirected", "to http://127.0.0.1:", "if you trust the new URL"}},
	{name: "redirect loop", repo: func(_ *testing.T, s remote) string {
		s.Route("team/a", gitserver.Redirect(http.StatusFound, s.URL("team/b")))
		s.Route("team/b", gitserver.Redirect(http.StatusFound, s.URL("team/a")))
		return s.URL("team/a")
	}, on: "create", words: []string{"redirected", "3 times"}},
	{name: "redirect to no repository", repo: func(_ *testing.T, s remote) string {
		s.Route("team/a", func(http.Handler) http.Handler { return http.RedirectHandler("/login", http.StatusFound) })
		return s.URL("team/a")
	}, on: "create", words: []string{"redirected", "not a repository's"}},
	{name: "protocol 0", repo: always(gitserver.ProtocolZero())},
	{name: "dumb server", repo: func(t *testing.T, s remote) string {
		dumb, err := s.Dumb(app)
		if err != nil {
			t.Fatal(err)
		}
		s.Route(app, dumb)
		return s.url
	}},
	{name: "dumb server, loose objects", repo: func(t *testing.T, s remote) string {
		dumb, err := s.Dumb(app)
		if err != nil {
			t.Fatal(err)
		}
		s.commit(t, "main")
		testgit.GitAny(t, s.Path(app), "update-server-info")
		s.Route(app, dumb)
		return s.url
	}},
	{name: "a web page, and no git", repo: func(_ *testing.T, s remote) string {
		s.Route("page", gitserver.Page("text/html", "<html>hello"))
		return s.URL("page")
	}, on: "create", words: []string{"not git", "a page of HTML", "check the URL"}},
	{name: "a web page in place of the pack", repo: always(gitserver.On(gitserver.Fetch, gitserver.Page("text/html", "<!DOCTYPE html>\n<html>\n"))),
		on: "mount", words: []string{"not git", "check the URL"}},
	{name: "connection reset", repo: always(gitserver.Cut(0)), on: "mount", words: []string{"server error", "try again"}},
	// git makes a loose file for each ref first. The filesystem has a journal, because without one
	// that takes a minute.
	{name: "100,000 refs", disk: 1 << 30, repo: func(t *testing.T, s remote) string {
		testgit.GitAny(t, s.Path(app), "pack-refs", "--all")
		f, err := os.OpenFile(filepath.Join(s.Path(app), "packed-refs"), os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		w := bufio.NewWriter(f)
		for i := range 100_000 {
			fmt.Fprintf(w, "%s refs/tags/zz/t%06d\n", s.head, i)
		}
		if err := errors.Join(w.Flush(), f.Close()); err != nil {
			t.Fatal(err)
		}
		return s.url
	}},
}

func TestFaults(t *testing.T) {
	t.Parallel()
	shared, impatient := start(t), startImpatient(t)
	t.Run("each", func(t *testing.T) {
		for i, f := range faults {
			t.Run(f.name, func(t *testing.T) {
				short.OneOf(t, 8)
				t.Parallel()
				p := shared
				if f.silent {
					p = impatient
				}
				f.try(t, p, fmt.Sprintf("v%d", i))
			})
		}
	})
	wantNothingLeft(t, shared)
	wantNothingLeft(t, impatient)
}

// try sets up the fault, creates and mounts a volume, and checks the errors that the user sees.
func (f fault) try(t *testing.T, p *plugin, volume string) {
	var r remote
	if f.secure {
		r = serveTLS(t, f.tls...)
		p = start(t, "CA_BUNDLE="+string(r.CA()))
	} else {
		r = serve(t)
	}
	if f.disk > 0 {
		p = startIn(t, smallDisk(t, f.disk))
	}
	url := f.repo(t, r)
	head := testgit.GitAny(t, r.Path(app), "rev-parse", "main")
	on, err := "create", p.create(volume, append(f.options, "repo="+url)...)
	if err == nil {
		on, err = "mount", p.mountAndCheck(volume, head)
	}
	words := ""
	if err != nil {
		words = on + ": " + err.Error()
	}
	addLine(f.name, words)
	switch {
	case f.on == "" && err != nil:
		t.Error(err)
	case f.on == "":
		if got := p.status(volume)["last_error"]; got != "" {
			t.Errorf("last_error: %q, want none", got)
		}
	case err == nil || f.on != on:
		t.Errorf("%s: %v; want the error from %s", on, err, f.on)
	default:
		if err := checkError(err, f.words...); err != nil {
			t.Error(err)
		}
	}
	if err != nil && on == "mount" { // the volume's status has the error too
		if err := checkError(fmt.Errorf("last_error: %v", p.status(volume)["last_error"]), f.words...); err != nil {
			t.Error(err)
		}
	}
}

// wantNothingLeft checks that a fault left no temporary files, locks or processes behind.
func wantNothingLeft(t *testing.T, p *plugin) {
	t.Helper()
	p.await("nothing is left", func() error {
		out, err := exec.Command("find", p.path("data/clones"), "(", "-name", "tmp_*", "-o", "-name", "*.lock", "-o", "-name", ".tmp-*", ")", "-not", "-path", "*/tree/*").Output()
		if err != nil {
			return err
		}
		if len(out) > 0 {
			return errors.New(string(out))
		}
		children, err := exec.Command("pgrep", "-P", fmt.Sprint(p.Pid())).Output()
		if err == nil {
			return fmt.Errorf("children: %s", children)
		}
		return nil
	})
}
