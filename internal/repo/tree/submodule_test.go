package tree

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/helmdeck/repos/internal/git/gitref"
	"github.com/helmdeck/repos/internal/git/guard"
	"github.com/helmdeck/repos/internal/repo/checkout"
	"github.com/helmdeck/repos/internal/repo/remote"
	"github.com/helmdeck/repos/internal/volume"
)

func TestPlanSubmodules(t *testing.T) {
	base, err := volume.ParseURL("https://h/o/r", volume.Schemes{})
	if err != nil {
		t.Fatal(err)
	}
	link := func(paths ...string) (links []checkout.Gitlink) {
		for _, p := range paths {
			links = append(links, checkout.Gitlink{Path: gitref.Text(p), Commit: "c"})
		}
		return links
	}
	for _, tt := range []struct {
		name     string
		links    []checkout.Gitlink
		sections []checkout.Submodule
		want     string // name path URL, or a part of the error
	}{
		{"relative", link("a"), []checkout.Submodule{{Name: "n", Path: "a", URL: "../s"}}, "[n a https://h/o/s]"},
		{"another host", link("a"), []checkout.Submodule{{Name: "n/m", Path: "a", URL: "https://g/s"}}, "[n/m a https://g/s]"},
		{"without a section", link("a", "b"), []checkout.Submodule{{Name: "b", Path: "b", URL: "../b"}}, "[b b https://h/o/b]"},
		{"section without a submodule", link(), []checkout.Submodule{{Name: "../..", Path: "a", URL: "ext::x"}}, "[]"},
		{"not to be updated", link("a"), []checkout.Submodule{{Name: "a", Path: "a", URL: "../a", Update: "none"}}, "[]"},
		{"update by a command", link("a"), []checkout.Submodule{{Name: "a", Path: "a", URL: "../a", Update: "!touch x"}}, "[a a https://h/o/a]"},
		{"two sections for a path", link("a"), []checkout.Submodule{{Name: "m", Path: "a", URL: "../m"}, {Name: "n", Path: "a", URL: "../n"}}, "[n a https://h/o/n]"},
		{"prefix that is no directory", link("a", "ab"), []checkout.Submodule{{Name: "a", Path: "a", URL: "../a"}, {Name: "ab", Path: "ab", URL: "../a"}}, "[a a https://h/o/a ab ab https://h/o/a]"},
		{"name within another", link("a", "b"), []checkout.Submodule{{Name: "x", Path: "a", URL: "../a"}, {Name: "x/modules/y", Path: "b", URL: "../b"}}, "lies within that of"},
		{"no URL", link("a"), []checkout.Submodule{{Name: "a", Path: "a"}}, "no URL"},
		{"empty name", link("a"), []checkout.Submodule{{Path: "a", URL: "../a"}}, "empty"},
		{"name of .GIT", link("a"), []checkout.Submodule{{Name: "x/.GIT", Path: "a", URL: "../a"}}, ".git"},
		{"backslashes", link("a"), []checkout.Submodule{{Name: `x\..\y`, Path: "a", URL: "../a"}}, ".."},
		{"absolute", link("a"), []checkout.Submodule{{Name: "/etc", Path: "a", URL: "../a"}}, "empty"},
		{"tab", link("a\t"), []checkout.Submodule{{Name: "a", Path: "a\t", URL: "../a"}}, "control"},
	} {
		c := Collection{common: new(Common)}
		s := Spec{Source: remote.Source{URL: base}, Files: volume.Files{Submodules: volume.Submodules{Levels: volume.TopLevel}}}
		got := []string{}
		var err error
		for _, s := range c.submoduleBuilder(s).plan(superproject{found: checkout.Found{Gitlinks: tt.links, Submodules: tt.sections}, url: base}) {
			if err = cmp.Or(err, s.err); s.err == nil {
				got = append(got, s.name, s.path, s.urls[0].String())
			}
		}
		if err == nil && fmt.Sprint(got) != tt.want || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, %v, want %s", tt.name, got, err, tt.want)
		}
	}
}

func TestRequireEmptyDir(t *testing.T) {
	top, outside := t.TempDir(), t.TempDir()
	for _, dir := range []string{"a/b", "full/x"} {
		if err := os.MkdirAll(filepath.Join(top, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(outside, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{"out": outside, "a/in": "b", "dangling": "nowhere"} {
		if err := os.Symlink(target, filepath.Join(top, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(top, "file"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for path, ok := range map[string]bool{
		"a/b": true, "full/x": true, "full": false, "out": false, "out/sub": false, "a/in": false,
		"dangling": false, "file": false, "missing": false,
	} {
		if err := requireEmptyDir(top, path); (err == nil) != ok {
			t.Errorf("requireEmptyDir(%q): %v, want an error: %v", path, err, !ok)
		}
	}
}

func TestLFSEndpoint(t *testing.T) {
	for url, want := range map[string]string{
		"https://h/o/r": "https://h/o/r.git/info/lfs", "https://h/o/r.git": "https://h/o/r.git/info/lfs", "https://h/o/r.js": "https://h/o/r.js.git/info/lfs",
	} {
		if got := lfsEndpoint(url); got != want {
			t.Errorf("lfsEndpoint(%q) = %q, want %q", url, got, want)
		}
	}
}

// TestLFSServer: where a repository's LFS objects are, for which URL the credential is, and which server of the volume's may
// be in a private network.
func TestLFSServer(t *testing.T) {
	parse := func(text string) volume.URL {
		u, err := volume.ParseURL(text, volume.AllSchemes())
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	for _, tt := range []struct{ volume, repo, given, endpoint, scope, own string }{
		{"https://h:8443/o/r", "https://h:8443/o/r", "", "https://h:8443/o/r.git/info/lfs", "https://h:8443/o/r", "h:8443"},
		{"https://h/o/r", "https://h/o/r", "git@h:o/r.git", "https://h/o/r.git/info/lfs", "https://h/o/r", "h:443"},
		{"http://h:80/o/r", "http://h:80/o/r", "http://lfs.h/x", "http://lfs.h/x", "", "h:80"},
		{"ssh://git@h:2222/o/r", "ssh://git@h:2222/o/r", "", "https://h/o/r.git/info/lfs", "https://h/o/r", "h:443"},
		{"ssh://git@h:2222/o/r", "ssh://git@h:2222/o/r", "ssh://git@h:2222/o/s", "https://h/o/s.git/info/lfs", "https://h/o/s", "h:443"},
		{"git@h:o/r", "git@h:o/r", "https://h/lfs", "https://h/lfs", "https://h/lfs", "h:22"},
		// A submodule elsewhere is not the user's choice.
		{"git@h:o/r", "git@other:o/s", "", "https://other/o/s.git/info/lfs", "https://other/o/s", "h:22"},
		{"https://h/o/r", "git@other:o/s", "git@other:o/t", "https://other/o/t.git/info/lfs", "https://other/o/t", "h:443"},
	} {
		endpoint, scope, beside, err := lfsServer(Spec{Source: remote.Source{URL: parse(tt.repo)}}, tt.given)
		rule := guard.Rule{Own: hostPort(parse(tt.volume))}
		if beside {
			rule = besideRule(rule, endpoint)
		}
		if err != nil || endpoint != tt.endpoint || scope != tt.scope || rule.Own.String() != tt.own {
			t.Errorf("%+v: %q for %q, own %s; %v", tt, endpoint, scope, rule.Own, err)
		}
	}
	if _, _, _, err := lfsServer(Spec{Source: remote.Source{URL: parse("https://h/o/r")}}, "git@other:o/r"); err == nil {
		t.Error("an ssh URL of another host is no error")
	}
}
