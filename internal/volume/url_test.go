package volume

import (
	"strings"
	"testing"
)

func TestParseURL(t *testing.T) {
	long := "https://h/" + strings.Repeat("x", maxURL-len("https://h/"))
	label := strings.Repeat("a", 63)
	for _, tt := range []struct{ in, text, normalized, host string }{
		{"https://Git.Example.com/Org/Repo.git", "https://git.example.com/Org/Repo.git", "https://git.example.com/Org/Repo", "git.example.com"},
		{"HTTPS://h/o/r", "https://h/o/r", "https://h/o/r", "h"},
		{"https://h/o/r///", "https://h/o/r", "https://h/o/r", "h"},
		{"https://h/o/r.git/", "https://h/o/r.git", "https://h/o/r", "h"},
		{"https://h/o/r.git.git", "https://h/o/r.git.git", "https://h/o/r.git", "h"},
		{"https://h/o/r/.git", "https://h/o/r/.git", "https://h/o/r/.git", "h"},
		{"https://h:443/r", "https://h:443/r", "https://h/r", "h"},
		{"https://h:0443/r", "https://h:443/r", "https://h/r", "h"},
		{"https://h:80/r", "https://h:80/r", "https://h:80/r", "h"},
		{"http://h:80/r", "http://h:80/r", "http://h/r", "h"},
		{"http://127.0.0.1:8080/r", "http://127.0.0.1:8080/r", "http://127.0.0.1:8080/r", "127.0.0.1"},
		{"http://[2001:DB8:0::1]:8080/r", "http://[2001:db8::1]:8080/r", "http://[2001:db8::1]:8080/r", "2001:db8::1"},
		{"http://[::1]/r", "http://[::1]/r", "http://[::1]/r", "::1"},
		{"https://h/a%20b/%e9%2Fc", "https://h/a%20b/%e9%2Fc", "https://h/a%20b/%e9%2Fc", "h"},
		{"https://h/größe/日本", "https://h/größe/日本", "https://h/größe/日本", "h"},
		{"https://h/x/a@b/~c/..d/e..", "https://h/x/a@b/~c/..d/e..", "https://h/x/a@b/~c/..d/e..", "h"},
		{"https://" + label + ".com/r", "https://" + label + ".com/r", "https://" + label + ".com/r", label + ".com"},
		{long, long, long, "h"},
		{"https://jane@H/r.git", "https://jane@h/r.git", "https://h/r", "h"},
		{"http://jane%40example.com@h:80/r", "http://jane%40example.com@h:80/r", "http://h/r", "h"},
		{"https://x-token-auth@h/r", "https://x-token-auth@h/r", "https://h/r", "h"},
		{"https://an.unusually.long-user.of.a-company@h/r", "https://an.unusually.long-user.of.a-company@h/r", "https://h/r", "h"},
		{"git://h:9418/r", "git://h:9418/r", "git://h/r", "h"},
		{"ssh://git@H:22/o/r.git", "ssh://git@h:22/o/r.git", "ssh://git@h/o/r", "h"},
		{"ssh://Git@h/r", "ssh://Git@h/r", "ssh://Git@h/r", "h"},
		{"git+ssh://git@H/o/r.git", "ssh://git@h/o/r.git", "ssh://git@h/o/r", "h"},
		{"SSH+git://h:22/r", "ssh://h:22/r", "ssh://h/r", "h"},
		{"ssh://h/~/r", "ssh://h/~/r", "ssh://h/~/r", "h"},
		{"ssh://h/~bob/r", "ssh://h/~bob/r", "ssh://h/~bob/r", "h"},
		{"git@GitHub.com:o/r.git", "git@github.com:o/r.git", "ssh://git@github.com/~/o/r", "github.com"},
		{"git@h:/o/r.git/", "git@h:/o/r.git", "ssh://git@h/o/r", "h"},
		{"h:r", "h:r", "ssh://h/~/r", "h"},
		{"h:~/r", "h:~/r", "ssh://h/~/r", "h"},
		{"h:/~/r", "h:/~/r", "ssh://h/~/r", "h"},
		{"h:~bob/r", "h:~bob/r", "ssh://h/~bob/r", "h"},
		{"h:a%20b", "h:a%20b", "ssh://h/~/a%2520b", "h"},
		{"git@h:o/r@v1", "git@h:o/r@v1", "ssh://git@h/~/o/r@v1", "h"},
		{"git@[::1]:r", "git@[::1]:r", "ssh://git@[::1]/~/r", "::1"},
	} {
		u, err := ParseURL(tt.in, AllSchemes())
		if err != nil {
			t.Errorf("ParseURL(%q): %v", tt.in, err)
			continue
		}
		if got := u.String(); got != tt.text {
			t.Errorf("ParseURL(%q).String() = %q, want %q", tt.in, got, tt.text)
		}
		if got := u.Normalized(); got != tt.normalized {
			t.Errorf("ParseURL(%q).Normalized() = %q, want %q", tt.in, got, tt.normalized)
		}
		if got := u.Host(); got != tt.host {
			t.Errorf("ParseURL(%q).Host() = %q, want %q", tt.in, got, tt.host)
		}
		wantScheme, _, _ := strings.Cut(tt.normalized, ":")
		if got := u.Scheme(); got != wantScheme {
			t.Errorf("ParseURL(%q).Scheme() = %q, want %q", tt.in, got, wantScheme)
		}
	}
}

func TestParseURLRefuses(t *testing.T) {
	// No error may contain "secret".
	for _, tt := range []struct{ in, want string }{
		{"", "empty value"},
		{"https://h/" + strings.Repeat("x", maxURL), "longer than 4096 bytes"},
		{"--upload-pack=x", "begins with a dash"},
		{"-https://h/x", "begins with a dash"},
		{"ext::sh -c id", "transport helper"},
		{"fd::17", "transport helper"},
		{"https::https://h/x", "transport helper"},
		{"file:///etc", `"file:///etc" has the scheme file, which is not allowed; allowed: a URL`},
		{"FILE:///etc", "has the scheme file"},
		{"file:/etc", "lacks the //"},
		{"ftp://h/x", "has the scheme ftp"},
		{"gopher+x://h/x", "has the scheme gopher+x"},
		{"/etc", "is not a URL"},
		{"./a:b", "is not a URL"},
		{"../x", "is not a URL"},
		{"github.com/o/r", "is not a URL"},
		{"repo", "is not a URL"},
		{"://h/x", "is not a URL"},
		{":x", "is not a URL"},
		{"1http://h/x", "is not a URL"},
		{"https:/h/x", "lacks the //"},
		{"https:h/x", "lacks the //"},
		{"https://h", "has no path"},
		{"https://h/", "has no path"},
		{"https://h///", "has no path"},
		{"https:///x", "has no host"},
		{"https://", "has no host"},
		{"https://:80/x", "has no host"},
		{"https://h:/x", "from 1 to 65535"},
		{"https://h:0/x", "from 1 to 65535"},
		{"https://h:65536/x", "from 1 to 65535"},
		{"https://h:+1/x", "from 1 to 65535"},
		{"https://h:http/x", "from 1 to 65535"},
		{"https://-h/x", "has a host"},
		{"https://h-/x", "has a host"},
		{"https://a..b/x", "has a host"},
		{"https://h./x", "has a host"},
		{"https://a_b/x", "has a host"},
		{"https://höst/x", "has a host"},
		{"https://h%2fx/x", "has a host"},
		{"https://" + strings.Repeat("a", 64) + "/x", "has a host"},
		{"https://" + strings.Repeat("a.", 127) + "/x", "longer than 253"},
		{"https://[::1/x", "IPv6"},
		{"https://[1.2.3.4]/x", "IPv6"},
		{"https://[fe80::1%25eth0]/x", "IPv6"},
		{"https://[::1]x/x", "IPv6"},
		{"https://::1/x", "has a host"},
		{"https://h/a/../b", ". or .."},
		{"https://h/..", ". or .."},
		{"https://h/../", ". or .."},
		{"https://h/a/./b", ". or .."},
		{"https://h/a/%2e%2E/b", ". or .."},
		{"https://h/a/.%2e%2fb", ". or .."},
		{"https://h/a%00b", "control character"},
		{"https://h/a%0ab", "control character"},
		{"https://h/a%7Fb", "control character"},
		{"https://h/a%zz", "two hexadecimal digits"},
		{"https://h/a%", "two hexadecimal digits"},
		{"https://h/a b", "white space"},
		{" https://h/a", "white space"},
		{"https://h/a\n", "white space"},
		{"https://h/a\x00", "white space"},
		{"https://h/a\u00a0b", "white space"},
		{"https://h/a\u202eb", "invisible"},
		{"https://h/a\xff", "not valid UTF-8"},
		{`https://h\@x/a`, "backslash"},
		{"https://h/x?token=secret", "query"},
		{"https://h/x#secret", "fragment"},
		{"https://h?x/y", "query"},
		{"h:x/" + strings.Repeat("%", 2000), "longer than 4096 bytes"},
		{"https://user:secret@h/x", "store a credential"},
		{"https://@h/x", "has an empty user name"},
		{"https://user:@h/x", "store a credential"},
		{"https://user%3Asecret@h/x", "store a credential"},
		{"https://secret@me@h/x", "an @ in it is %40"},
		{"https://$(secret)@h/x", "other characters than letters"},
		{"https://secret%zz@h/x", "other characters than letters"},
		{"https://secret%0a@h/x", "control characters"},
		{"https://secret%ff@h/x", "not UTF-8"},
		{"https://" + strings.Repeat("secret.", 40) + "@h/x", "longer than 256 bytes"},
		{"https://ghp_0123456789secret0123@h/x", "store a credential"},
		{"https://glpat-0123456789secret0123@h/x", "store a credential"},
		{"https://" + strings.Repeat("secret7", 6) + "@h/x", "store a credential"},
		{"http://user:secret@h:80/x", "store a credential"},
		{"git://secret@h/x", "which git:// does not have"},
		{"https://user:sec@secret@h/x", "store a credential"},
		{"https://user:secret@h_h/x", "store a credential"},
		{"https://user:secret%40h/x", "from 1 to 65535"},
		{"https://user:secret/more@h/x", "from 1 to 65535"},
		{"https://user:secret", "from 1 to 65535"},
		{"https://user:?secret@h/x", "store a credential"},
		{"https:/user:secret@h/x", "lacks the //"},
		{"https:user:secret%40h/x", "lacks the //"},
		{"user:secret@h:x", "contains a password"},
		{"ftp://user:secret@h/x", "has the scheme ftp"},
		{"https://user:secret@h/a b", "white space"},
		{"ext::https://user:secret@h/x", "transport helper"},
		{"-https://user:secret@h/x", "begins with a dash"},
		{"ssh://user:secret@h/x", "store a credential"},
		{"ssh://-oProxyCommand=id@h/x", "plain ssh user name"},
		{"ssh://@h/x", "plain ssh user name"},
		{"ssh://-oProxyCommand=id/x", "has a host"},
		{"-oProxyCommand=id:x", "begins with a dash"},
		{"a@-h:x", "is not a URL"},
		{"h:-x", "begins with a dash"},
		{"h:", "has no path"},
		{"h:/", "has no path"},
		{"h:../x", ". or .."},
		{"h:a#b", "contains ? or #"},
		{"[h:22]:x", "is not a URL"},
		{"[::1]x:y", "is not a URL"},
		{"a b@h:x", "white space"},
	} {
		u, err := ParseURL(tt.in, AllSchemes())
		if err == nil {
			t.Errorf("ParseURL(%q) = %q, want an error with %q", tt.in, u, tt.want)
			continue
		}
		if !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("ParseURL(%q): %v; want %q in it, and no secret", tt.in, err, tt.want)
		}
	}
}

func TestParseURLSchemes(t *testing.T) {
	ssh, err := ParseSchemes("ssh")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		in      string
		schemes Schemes
		want    string // part of the error; "": no error
	}{
		{"https://h/x", Schemes{}, ""},
		{"http://h/x", Schemes{}, ""},
		{"ssh://h/x", Schemes{}, `option "repo": "ssh://h/x" has the scheme ssh, which is not allowed (the setting ALLOW_SCHEMES can add it); allowed: a URL such as https://host/path, its scheme one of https, http`},
		{"git@h:x", Schemes{}, "has the scheme ssh"},
		{"git://h/x", ssh, "has the scheme git"},
		{"file:///x", ssh, "one of https, http, ssh"},
		{"ssh://h/x", ssh, ""},
		{"git@h:x", ssh, ""},
	} {
		got := ""
		if _, err := ParseURL(tt.in, tt.schemes); err != nil {
			got = err.Error()
		}
		if (tt.want == "") != (got == "") || !strings.Contains(got, tt.want) {
			t.Errorf("ParseURL(%q, %v): %q, want %q", tt.in, tt.schemes.List(), got, tt.want)
		}
	}
}

func TestURLHash(t *testing.T) {
	// The first 16 digits of: printf https://example.com/o/r | sha256sum
	const want = "e3a59ac1cefa7b9d"
	for _, in := range []string{"https://example.com/o/r", "https://Example.com:443/o/r.git/"} {
		u, err := ParseURL(in, Schemes{})
		if err != nil {
			t.Fatal(err)
		}
		if got := u.Hash(); got != want {
			t.Errorf("ParseURL(%q).Hash() = %q, want %q", in, got, want)
		}
	}
	if got := (URL{}).String(); got != "" {
		t.Errorf("the zero URL is %q, want nothing", got)
	}
}

func FuzzParseURL(f *testing.F) {
	for _, seed := range []string{
		"https://Git.Example.com:443/Org/Repo.git/", "http://[::1]:8080/r", "ssh://git@h/~/r", "git@h:o/r.git", "h:/~x", "git@[::1]:r",
		"git://h/x", "file:///etc", "ext::sh -c id", "--upload-pack=x", "https://user:pw@h/x", "https://t@h/x", "https://h/%2e%2e/x",
		"https://h/a%00", "https://h/x?y#z", "h:a%2fb", "https://h/x.git.git", "https://h/.git", "https://h//.git/",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		const secret = "9f86d081884c7d65"
		hidden := "https://user:" + secret + "@" + text
		if u, err := ParseURL(hidden, AllSchemes()); err == nil {
			t.Errorf("ParseURL(%q) = %q, want an error", hidden, u)
		} else if strings.Contains(err.Error(), secret) {
			t.Errorf("ParseURL(%q) repeats the secret: %v", hidden, err)
		}
		if once := redact(text); redact(once) != once {
			t.Errorf("redact(%q) = %q, and again %q", text, once, redact(once))
		}
		u, err := ParseURL(text, AllSchemes())
		if err != nil {
			if u != (URL{}) {
				t.Errorf("ParseURL(%q) = %q beside an error", text, u)
			}
			return
		}
		again, err := ParseURL(u.String(), AllSchemes())
		if err != nil || again != u {
			t.Errorf("ParseURL(%q) = %q, and that parses to %q, %v", text, u, again, err)
		}
		// Normalized returns a URL with the same scheme, user, host and port. Normalizing it again removes at most
		// another .git.
		normal, err := ParseURL(u.Normalized(), AllSchemes())
		if err != nil || normal.String() != u.Normalized() {
			t.Errorf("ParseURL(%q).Normalized() = %q, and that parses to %q, %v", text, u.Normalized(), normal, err)
		}
		if normal.scheme != u.scheme || normal.user != u.WithoutUser().user || normal.host != u.host {
			t.Errorf("ParseURL(%q).Normalized() = %q is elsewhere", text, u.Normalized())
		}
		if strings.HasPrefix(u.String(), "-") || strings.ContainsAny(u.String(), " \t\r\n\x00\\") || helperText.MatchString(u.String()) {
			t.Errorf("ParseURL(%q) = %q is not safe for git", text, u)
		}
	})
}
