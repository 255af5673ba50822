package volume

import (
	"os/exec"
	"strings"
	"testing"

	_ "github.com/helmdeck/repos/tests/environ"
)

func TestParseRef(t *testing.T) {
	sha := strings.Repeat("0123456789abcdef", 4)
	for _, tt := range []struct {
		in     string
		kind   RefKind
		text   string
		abbrev bool
	}{
		{"", RefDefault, "HEAD", false},
		{"HEAD", RefDefault, "HEAD", false},
		{"main", RefName, "main", false},
		{"head", RefName, "head", false},
		{"feature/a+b#1", RefName, "feature/a+b#1", false},
		{"größe/日本", RefName, "größe/日本", false},
		{"v1.2.3", RefName, "v1.2.3", false},
		{"a/-b", RefName, "a/-b", false},
		{"a@b", RefName, "a@b", false},
		{"{a}", RefName, "{a}", false},
		{"refs", RefName, "refs", false},
		{"heads/main", RefName, "heads/main", false},
		{strings.Repeat("x", maxRef), RefName, strings.Repeat("x", maxRef), false},
		{"refs/heads/x", RefFull, "refs/heads/x", false},
		{"refs/pull/7/head", RefFull, "refs/pull/7/head", false},
		{"refs/" + sha[:40], RefFull, "refs/" + sha[:40], false},
		{sha[:6], RefName, sha[:6], false},
		{sha[:7], RefName, sha[:7], true},
		{"ABCDEF1", RefName, "ABCDEF1", true},
		{"abcdefg", RefName, "abcdefg", false},
		{sha[:39], RefName, sha[:39], true},
		{sha[:40], RefSHA, sha[:40], false},
		{strings.ToUpper(sha[:40]), RefSHA, sha[:40], false},
		{sha[:41], RefName, sha[:41], true},
		{sha[:63], RefName, sha[:63], true},
		{sha, RefSHA, sha, false},
		{sha + "0", RefName, sha + "0", false},
	} {
		r, err := ParseRef(tt.in)
		if err != nil {
			t.Errorf("ParseRef(%q): %v", tt.in, err)
			continue
		}
		if r.Kind() != tt.kind || r.String() != tt.text || r.MaybeAbbrev() != tt.abbrev {
			t.Errorf("ParseRef(%q) = %v %q %v, want %v %q %v", tt.in, r.Kind(), r, r.MaybeAbbrev(), tt.kind, tt.text, tt.abbrev)
		}
		if again, err := ParseRef(r.String()); err != nil || again != r {
			t.Errorf("ParseRef(%q) = %v, %v, want %v", r, again, err, r)
		}
	}
	if got := (Ref{}).Kind(); got != RefDefault {
		t.Errorf("the zero Ref is of kind %v, want %v", got, RefDefault)
	}
}

// refused holds refs that ParseRef refuses, with a part of the error.
var refused = []struct{ in, want string }{
	{"--upload-pack=x", "begins with a dash"},
	{"-", "begins with a dash"},
	{"@", "is not a ref"},
	{"a..b", "contains .."},
	{"a@{1}", "contains @{"},
	{"a b", "contains ' '"},
	{"a~1", "contains '~'"},
	{"a^", "contains '^'"},
	{"a:b", "contains ':'"},
	{"a?", "contains '?'"},
	{"a*", "contains '*'"},
	{"a[b", "contains '['"},
	{`a\b`, `contains '\\'`},
	{"a\nb", "control character"},
	{"a\x7fb", "control character"},
	{"\x01", "control character"},
	{"/a", "slash"},
	{"a/", "slash"},
	{"a//b", "slash"},
	{"/", "slash"},
	{"refs/", "slash"},
	{".a", "begins with a dot"},
	{"a/.b", "begins with a dot"},
	{"a.", "ends with a dot"},
	{".", "ends with a dot"},
	{"a.lock", ".lock"},
	{"a.lock/b", ".lock"},
	{"refs/heads/x.lock", ".lock"},
}

func TestParseRefRefuses(t *testing.T) {
	tests := append([]struct{ in, want string }{
		{"a\x00b", "control character"},
		{"a\xffb", "not valid UTF-8"},
		{strings.Repeat("x", maxRef+1), "longer than 1024 bytes"},
		{"https://user:secret@h/x", `option "ref": "https://***@h/x" contains ':'; allowed: a branch`},
	}, refused...)
	for _, tt := range tests {
		r, err := ParseRef(tt.in)
		if err == nil || !strings.Contains(err.Error(), tt.want) || r != (Ref{}) {
			t.Errorf("ParseRef(%q) = %q, %v; want an error with %q", tt.in, r, err, tt.want)
		}
	}
}

// TestParseRefAsGit compares ParseRef with git for all test refs that a program's argument can hold.
func TestParseRefAsGit(t *testing.T) {
	texts := []string{"main", "HEAD", "feature/a+b#1", "größe/日本", "a/-b", "a@b", "@a", "a@", "{a}", "refs", "a.b", "a.lockx", "lock", "a.LOCK",
		".lock", "a/.lock", "@{", "a/@", "a./b", "..", "...", "a/..", "\u00a0", "%2e", "a'b", `a"b`, "$(id)", "a;b", "!", "refs/x", "a]"}
	for _, tt := range refused {
		texts = append(texts, tt.in)
	}
	// A ref with each ASCII byte in the middle.
	for c := 1; c < 0x80; c++ {
		texts = append(texts, "a"+string(rune(c))+"b")
	}
	for _, text := range texts {
		_, err := ParseRef(text)
		got := err == nil
		want := exec.Command("git", "check-ref-format", "--allow-onelevel", text).Run() == nil
		if got != want {
			t.Errorf("ParseRef(%q) accepts: %v (%v), git: %v", text, got, err, want)
		}
	}
}

func FuzzParseRef(f *testing.F) {
	for _, tt := range refused {
		f.Add(tt.in)
	}
	for _, seed := range []string{"", "HEAD", "main", "größe/日本", "refs/pull/7/head", strings.Repeat("A", 40), "abcdef0"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := ParseRef(text)
		if err != nil {
			return
		}
		if again, err := ParseRef(r.String()); err != nil || again != r {
			t.Errorf("ParseRef(%q) = %q, and that parses to %q, %v", text, r, again, err)
		}
		if strings.HasPrefix(r.String(), "-") || strings.ContainsAny(r.String(), " \n\x00:^~*") {
			t.Errorf("ParseRef(%q) = %q is not safe for git", text, r)
		}
	})
}
