package volume

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestSubmodulesWants(t *testing.T) {
	for _, tt := range []struct {
		option    string
		have, not []string
	}{
		{"true", []string{"a", "libs/x"}, nil},
		{"true,libs", []string{"libs", "libs/x", "libs/y/z"}, []string{"a", "lib", "libsx", "a/libs"}},
		{"true,libs/*", []string{"libs/x", "libs/y/z"}, []string{"libs", "a"}},
		{"true,!libs/big", []string{"a", "libs/x", "libs/bigger"}, []string{"libs/big", "libs/big/x"}},
		{"true,libs,!libs/*g", []string{"libs/x"}, []string{"libs/big", "a"}},
		{"true,*", []string{"a", "libs/x"}, nil},
		{"true,a/b/c", nil, []string{"a", "a/b"}},
		{"recursive,a/b/c", []string{"a", "a/b", "a/b/c", "a/b/c/d"}, []string{"a/x", "b", "a/b/x"}},
		{"recursive,*/b", []string{"a", "a/b", "x/b"}, []string{"a/c"}},
		{"recursive,!a/b", []string{"a", "a/c"}, []string{"a/b", "a/b/c"}},
		{"true,[*],!x?z", []string{"*"}, []string{"a", "xyz"}},
		{"true,[!]x", []string{"!x"}, []string{"x"}},
	} {
		s, problem := parseSubmodules(tt.option)
		if problem != "" {
			t.Errorf("%s: %s", tt.option, problem)
			continue
		}
		for _, dir := range append(tt.have, tt.not...) {
			if got, want := s.Wants(dir), slices.Contains(tt.have, dir); got != want {
				t.Errorf("%s wants %s: %v, want %v", tt.option, dir, got, want)
			}
		}
	}
}

// The option that an error offers leaves out the submodule, and nothing else.
func TestSubmodulesWithout(t *testing.T) {
	for _, option := range []string{"true", "recursive,a,!b"} {
		for _, dir := range []string{"a", "a/b", "a*", "a[1]", "a/?x", "!a", "a\r", "a\x1b[2Jb", "a\xffb", "a,b"} {
			s, _ := parseSubmodules(option)
			again, problem := parseSubmodules(s.Without(dir).String())
			if problem != "" || again.Wants(dir) || s.Wants("a/other") && !again.Wants("a/other") && dir != "a" {
				t.Errorf("%s without %s: %q, %s", option, dir, again, problem)
			}
		}
	}
	for option, want := range map[string]string{"true,a": "false", "true,a,b": "true,b,!a", "recursive,b,!c": "recursive,b,!c,!a", "true": "true,!a"} {
		s, _ := parseSubmodules(option)
		if got := s.Without("a").String(); got != want {
			t.Errorf("%s without a: %q, want %q", option, got, want)
		}
	}
	s, _ := parseSubmodules("true,libs/*,docs,!x")
	if got := s.Unmatched([]string{"libs/a", "x"}); !slices.Equal(got, []string{"docs"}) {
		t.Errorf("unmatched: %q", got)
	}
}

// TestParseLFS: an empty want means an error with the fact, and a "+" that the server is beside a repository.
func TestParseLFS(t *testing.T) {
	for _, tt := range []struct{ repo, text, want, fact string }{
		{"https://h/org/app.git", "https://h/org/app.git/info/lfs", "https://h/org/app.git/info/lfs", ""},
		{"https://h/org/app.git", "https://jane@lfs.other/x", "https://lfs.other/x", ""},
		{"https://h/org/app", "git@h:org/app.git", "+https://h/org/app", ""},
		{"http://h:8080/org/app", "ssh://git@h:2222/org/app.git/info/lfs", "+http://h:8080/org/app", ""},
		{"https://jane@h/org/app.git", "git://h/org/large", "+https://h/org/large", ""},
		{"https://h/scm/org/app.git", "ssh://git@h:7999/org/app.git", "+https://h/scm/org/app.git", ""},
		{"https://h/scm/org/app.git", "ssh://git@h:7999/org/large.git", "+https://h/org/large.git", ""},
		{"https://github.com/o/r", "ssh://git@ssh.github.com:443/o/r.git", "+https://github.com/o/r", ""},
		{"git@h:org/app.git", "git@h:org/app.git", "+https://h/org/app.git", ""},
		{"https://h/org/app", "git+ssh://git@h/org/app", "+https://h/org/app", ""},
		{"ssh://git@h:2222/org/app", "ssh://git@h:2222/org/large", "+https://h/org/large", ""},
		{"git@h:org/app", "https://h/org/app.git/info/lfs", "https://h/org/app.git/info/lfs", ""},
		{"https://h/org/app", "git@other:org/app", "", "only a URL on the repository's host"},
		{"https://h/org/app", "git@h:~jane/app", "", "the scheme ssh"},
		{"https://h/org/app", "git@h:../app", "", ". or .."},
		{"https://h/org/app", "ssh://git@h/info/lfs", "", "the scheme ssh"},
		{"https://h/org/app", "file:///org/app", "", "the scheme file"},
		{"https://h/org/app", "https://u:secret@h/lib", "", "password or token"},
		{"https://h/org/app", "--upload-pack=x", "", "a dash"},
	} {
		repo, err := ParseURL(tt.repo, AllSchemes())
		if err != nil {
			t.Fatal(err)
		}
		server, beside, err := repo.ParseLFS(tt.text)
		got := server.String()
		if beside {
			got = "+" + got
		}
		if got != tt.want || (err == nil) != (tt.fact == "") || err != nil && !containsFact(err, tt.fact) {
			t.Errorf("%s in %s: %q, %v, want %q, %s", tt.text, tt.repo, got, err, tt.want, tt.fact)
		}
	}
}

func TestModuleURL(t *testing.T) {
	ssh := Schemes{ssh: true}
	for _, tt := range []struct {
		base, own, text string
		schemes         Schemes
		want            string
	}{
		{"https://h/org/app.git", "", "git@h:org/lib.git", Schemes{}, "[https://h/org/lib.git]"},
		{"https://h/org/app", "", "ssh://git@H/org/lib", Schemes{}, "[https://h/org/lib]"},
		{"https://h/org/app", "", "git@h:/org/lib", Schemes{}, "[https://h/org/lib]"},
		{"https://h/org/app", "", "git+ssh://git@h/org/lib", Schemes{}, "[https://h/org/lib]"},
		{"https://h/org/app", "", "SSH+git://git@h:2222/org/lib", ssh, "[https://h/org/lib ssh://git@h:2222/org/lib]"},
		{"https://h/org/app", "", "git+ssh://git@other/org/lib", Schemes{}, "ssh, which is not allowed"},
		{"https://h/org/app", "", "git+https://h/org/lib", ssh, "the scheme git+https"},
		{"https://h:8443/org/app", "", "ssh://git@h:2222/org/lib", Schemes{}, "[https://h:8443/org/lib]"},
		{"http://h/org/app", "", "git://h/org/lib", Schemes{}, "[http://h/org/lib]"},
		{"http://h/org/app", "", "ssh://deploy@h/~/org/lib", Schemes{}, "[http://h/org/lib]"},
		{"https://jane@h/org/app", "", "git@h:org/lib", Schemes{}, "[https://jane@h/org/lib]"},
		{"https://h/org/app", "", "git@h:org/li%b", Schemes{}, "[https://h/org/li%25b]"},
		{"https://[::1]:8/org/app", "", "git@[::1]:org/lib", Schemes{}, "[https://[::1]:8/org/lib]"},
		// Nothing else is changed.
		{"https://h/org/app", "", "../lib", Schemes{}, "[https://h/org/lib]"},
		{"https://h/org/app", "", "http://h/org/lib", Schemes{}, "[http://h/org/lib]"},
		{"https://h/org/app", "", "https://h:8443/org/lib", Schemes{}, "[https://h:8443/org/lib]"},
		{"https://h/org/app", "", "git@other:org/lib", Schemes{}, "ssh, which is not allowed (the setting ALLOW_SCHEMES can add it)"},
		{"https://h/org/app", "", "git@sub.h:org/lib", Schemes{}, "ssh, which is not allowed"},
		{"https://h/org/app", "", "git@h:~jane/lib", Schemes{}, "ssh, which is not allowed"},
		{"https://h/org/app", "", "git@h:org/../lib", Schemes{}, ". or .."},
		{"https://h/org/app", "", "file://h/org/lib", Schemes{}, "the scheme file"},
		{"https://h/org/app", "", "https://u:secret@h/lib", Schemes{}, "password or token"},
		// Where ssh is allowed, it is the second choice.
		{"https://h/org/app", "", "git@h:org/lib", ssh, "[https://h/org/lib git@h:org/lib]"},
		{"https://h/org/app", "", "git@other:org/lib", ssh, "[git@other:org/lib]"},
		// Within a submodule, its host counts, and then the volume's.
		{"https://other/x/y", "https://h:8443/org/app", "git@other:x/lib", Schemes{}, "[https://other/x/lib]"},
		{"https://other/x/y", "https://h:8443/org/app", "git@h:x/lib", Schemes{}, "[https://h:8443/x/lib]"},
		// A server with its repositories below a path.
		{"https://h/scm/proj/app.git", "", "ssh://git@h:7999/proj/lib.git", Schemes{}, "[https://h/proj/lib.git https://h/scm/proj/lib.git]"},
		{"https://h/scm/proj/app.git", "", "ssh://git@h:7999/other/lib.git", Schemes{}, "[https://h/other/lib.git https://h/scm/other/lib.git]"},
		{"https://h/code/git/proj/app", "", "git@h:proj/lib", Schemes{}, "[https://h/proj/lib https://h/code/git/proj/lib]"},
		{"https://h/org/group/app", "", "git@h:org/lib", Schemes{}, "[https://h/org/lib]"},
		// Services whose ssh has a name of its own.
		{"https://github.com/o/r", "", "ssh://git@ssh.github.com:443/o/lib.git", Schemes{}, "[https://github.com/o/lib.git]"},
		{"https://org@dev.azure.com/org/p/_git/app", "", "git@ssh.dev.azure.com:v3/org/p/lib", Schemes{},
			"[https://org@dev.azure.com/org/p/_git/lib]"},
		// A volume over ssh has git:// URLs over ssh, and https ones as they are.
		{"git@h:org/app", "", "git://h/org/lib", Schemes{}, "[git@h:org/lib]"},
		{"ssh://git@h:2222/org/app", "", "git://h/org/lib.git", ssh, "[ssh://git@h:2222/org/lib.git]"},
		{"git@h:org/app", "", "https://h/org/lib", ssh, "[https://h/org/lib]"},
		{"git@h:org/app", "", "ssh://other@h:2222/org/lib", ssh, "[ssh://other@h:2222/org/lib]"},
	} {
		parse := func(text string) URL {
			u, err := ParseURL(text, AllSchemes())
			if err != nil {
				t.Fatal(err)
			}
			return u
		}
		m := ModuleURL{Text: tt.text, Base: parse(tt.base), Own: parse(tt.base)}
		if tt.own != "" {
			m.Own = parse(tt.own)
		}
		list, err := m.Resolve(tt.schemes, false)
		if err != nil {
			if !containsFact(err, tt.want) {
				t.Errorf("%s in %s: %v, want %s", tt.text, tt.base, err, tt.want)
			}
		} else if got := fmt.Sprint(list); got != tt.want {
			t.Errorf("%s in %s: %s, want %s", tt.text, tt.base, got, tt.want)
		}
		written, err := m.Resolve(tt.schemes, true)
		if want, wantErr := m.Base.ParseRelative(tt.text, tt.schemes); err == nil && !slices.Equal(written, []URL{want}) || (err == nil) != (wantErr == nil) {
			t.Errorf("%s in %s, as it is written: %v, %v, want %v, %v", tt.text, tt.base, written, err, want, wantErr)
		}
	}
}

// containsFact reports whether err has the words, and no advice for the author of a URL.
func containsFact(err error, words string) bool {
	bad, ok := errors.AsType[*OptionError](err)
	return ok && strings.Contains(bad.Fact(), words) && !strings.Contains(bad.Fact(), "leave it out") && !strings.Contains(bad.Fact(), "secret")
}
