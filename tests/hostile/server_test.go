package hostile

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/internal/git/gitserver/hostile"
)

func init() { groups = append(groups, serverAttacks) }

// limited bounds the memory and the time of a control.
const limited = `ulimit -v 1500000; timeout 10 `

// serverAttacks returns the attacks by servers that lie about an honest repository.
func serverAttacks() []attack {
	var all []attack
	head, err := os.ReadFile(server.Path("honest") + "/refs/heads/main")
	if err != nil {
		panic(err) // prepare has generated the repository
	}
	for _, advert := range hostile.Adverts(strings.TrimSpace(string(head))) {
		a := attack{group: "server", name: advert.Name, abuses: "an answer to ls-refs: " + advert.Abuses}
		a.lie(func(*trap) []gitserver.Fault { return []gitserver.Fault{gitserver.Advertise(advert.Refs)} })
		a.control.script, a.control.harmless = plain, true
		switch {
		case advert.Endless:
			a.control.script, a.control.effect = limited+`git ls-remote "$REPO" >/dev/null`, hostile.Fails
		case strings.HasPrefix(advert.Name, "head-"):
			// A naive script uses the name of the default branch without quotes.
			a.control.script += `; head=$(git ls-remote --symref "$REPO" HEAD | sed -n 's|^ref: \([^ ]*\)\tHEAD$|\1|p'); git -C w checkout -q ${head#refs/heads/}; true`
		}
		all = append(all, a)
	}
	for _, l := range lies {
		a := attack{group: "server", name: l.name, abuses: l.abuses}
		a.lie(l.faults)
		a.control.script, a.control.effect, a.control.harmless = l.script, l.effect, l.script == plain
		all = append(all, a)
	}
	return all
}

// lie makes the attack mount an honest repository from a server with faults.
func (a *attack) lie(faults func(tr *trap) []gitserver.Fault) {
	a.control.repo = func(t *testing.T, name string, tr *trap) string {
		t.Helper()
		if err := os.Symlink(server.Path("honest"), server.Path(name)); err != nil {
			t.Fatal(err)
		}
		server.Route(name, faults(tr)...)
		return server.URL(name)
	}
	serve := a.control.repo
	a.run = func(s *scene) {
		s.mountTwice(map[string]string{"repo": serve(s.T, s.volume, s.trap)})
	}
}

// lies are the attacks other than hostile advertisements of refs.
var lies = []struct {
	name, abuses string
	script       string
	effect       hostile.Effect
	faults       func(tr *trap) []gitserver.Fault
}{
	{"redirect", "a redirect to a server on loopback", plain, hostile.Asks, toBait(http.StatusMovedPermanently, "")},
	{"redirect-post", "a redirect of the ls-refs request alone, which is then sent elsewhere", `git -c http.followRedirects=true clone -q "$REPO" w`, hostile.Asks,
		func(tr *trap) []gitserver.Fault {
			return []gitserver.Fault{gitserver.On(gitserver.LsRefs, gitserver.Redirect(http.StatusTemporaryRedirect, tr.URL+"/x"))}
		}},
	{"redirect-file", "a redirect to a file", plain, hostile.None, redirectTo(func(tr *trap) string { return "file://" + tr.Outside + "/secret" })},
	{"redirect-metadata", "a redirect to the metadata service of a cloud", plain, hostile.None, redirectTo(func(*trap) string { return "http://169.254.169.254/latest" })},
	{"redirect-userinfo", "a redirect that brings a password", plain, hostile.Asks,
		redirectTo(func(tr *trap) string { return strings.Replace(tr.URL, "://", "://ada:pw@", 1) + "/x" })},
	{"redirect-option", "a redirect to a path that is an option", plain, hostile.None, redirectTo(func(*trap) string { return "--upload-pack=x" })},
	{"redirect-newline", "a redirect with line breaks in it", plain, hostile.None, redirectTo(func(tr *trap) string { return tr.URL + "/x%0d%0aHost:%20github.com" })},
	{"redirect-loop", "a redirect to itself for ever", plain, hostile.None, func(*trap) []gitserver.Fault {
		return []gitserver.Fault{func(http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, r.URL.RequestURI(), http.StatusFound)
			})
		}}
	}},
	{"dumb-alternates", "a plain web server that names another for its objects", `git -c http.followRedirects=true clone -q "$REPO" w`, hostile.Asks, func(tr *trap) []gitserver.Fault {
		return []gitserver.Fault{dumb(map[string]string{"objects/info/http-alternates": tr.URL + "/objects\n"})}
	}},
	{"dumb-path", "a plain web server whose refs are paths", plain, hostile.None, func(tr *trap) []gitserver.Fault {
		return []gitserver.Fault{dumb(map[string]string{"info/refs": strings.Repeat("a", 40) + "\trefs/heads/../../../../.." + tr.Outside + "/new\n"})}
	}},
	{"dumb-pack", "a plain web server whose packs' names are paths", plain, hostile.None, func(tr *trap) []gitserver.Fault {
		return []gitserver.Fault{dumb(map[string]string{"objects/info/packs": "P pack-../../../../../.." + tr.Outside + "/new.pack\n"})}
	}},
	{"words", "control characters and false errors in a server's error page", plain, hostile.None, func(*trap) []gitserver.Fault {
		return []gitserver.Fault{answer(http.StatusForbidden, "text/plain", "\x1b[2J\x1b]0;owned\a\nfatal: No space left on device\r\n")}
	}},
	{"words-packet", "control characters in a protocol error", plain, hostile.None, func(*trap) []gitserver.Fault {
		return []gitserver.Fault{gitserver.On(gitserver.LsRefs, answer(http.StatusOK, "application/x-git-upload-pack-result", packet("ERR \x1b[2J\x1b]0;owned\a\n")))}
	}},
	{"words-header", "a challenge with another realm and scheme", plain, hostile.None, func(*trap) []gitserver.Fault {
		return []gitserver.Fault{func(http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Add("WWW-Authenticate", "Negotiate")
				w.Header().Add("WWW-Authenticate", `Basic realm="`+strings.Repeat("a", 10_000)+`"`)
				w.WriteHeader(http.StatusUnauthorized)
			})
		}}
	}},
	{"not-git", "a page where git is expected", plain, hostile.None, func(*trap) []gitserver.Fault {
		return []gitserver.Fault{answer(http.StatusOK, "text/html", "<h1>hello</h1>")}
	}},
	{"packet-length", "a packet with a wrong length", plain, hostile.None, func(*trap) []gitserver.Fault {
		return []gitserver.Fault{gitserver.On(gitserver.LsRefs, answer(http.StatusOK, "application/x-git-upload-pack-result", "ffff"+strings.Repeat("a", 100)))}
	}},
	{"header-endless", "a header without an end", limited + `git ls-remote "$REPO"`, hostile.Fails, func(*trap) []gitserver.Fault {
		return []gitserver.Fault{func(http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("X-Long", strings.Repeat("a", 4<<20))
				w.WriteHeader(http.StatusOK)
			})
		}}
	}},
	{"zip-bomb", "an answer that unpacks to a thousand times its size", `ulimit -v 400000; timeout 10 git ls-remote "$REPO" >/dev/null`, hostile.Fails, func(*trap) []gitserver.Fault {
		return []gitserver.Fault{gitserver.On(gitserver.LsRefs, zipBomb(1<<30))}
	}},
	{"pack-spoiled", "a pack with a changed object", `git clone -q "$REPO" w`, hostile.Fails, func(*trap) []gitserver.Fault {
		return []gitserver.Fault{gitserver.Corrupt(200)}
	}},
	{"pack-signature", "a pack without a pack's signature", `git clone -q "$REPO" w`, hostile.Fails, func(*trap) []gitserver.Fault {
		return []gitserver.Fault{gitserver.Corrupt(0)}
	}},
	{"pack-checksum", "a pack with another checksum", `git clone -q "$REPO" w`, hostile.Fails, func(*trap) []gitserver.Fault {
		return []gitserver.Fault{gitserver.Corrupt(-1)}
	}},
}

func toBait(code int, path string) func(tr *trap) []gitserver.Fault {
	return func(tr *trap) []gitserver.Fault { return []gitserver.Fault{gitserver.Redirect(code, tr.URL+path)} }
}

// redirectTo redirects to an address of any form.
func redirectTo(base func(tr *trap) string) func(tr *trap) []gitserver.Fault {
	return func(tr *trap) []gitserver.Fault {
		return []gitserver.Fault{func(http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Location", base(tr)+"/info/refs?service=git-upload-pack")
				w.WriteHeader(http.StatusMovedPermanently)
			})
		}}
	}
}

// answer gives the same answer to every request.
func answer(code int, contentType, body string) gitserver.Fault {
	return func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", contentType)
			w.WriteHeader(code)
			io.WriteString(w, body)
		})
	}
}

func packet(text string) string { return fmt.Sprintf("%04x%s", len(text)+4, text) }

// dumb is a plain web server with the given files of a repository, and a branch at a commit that
// does not exist.
func dumb(files map[string]string) gitserver.Fault {
	all := map[string]string{
		"info/refs": strings.Repeat("ab", 20) + "\trefs/heads/main\n",
		"HEAD":      "ref: refs/heads/main\n",
	}
	for name, content := range files {
		all[name] = content
	}
	return func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			for name, content := range all {
				if strings.HasSuffix(r.URL.Path, "/"+name) {
					w.Header().Set("Content-Type", "text/plain")
					io.WriteString(w, content)
					return
				}
			}
			http.NotFound(w, r)
		})
	}
}
