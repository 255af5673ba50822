package volume

import (
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
)

func TestParseSubject(t *testing.T) {
	for _, tt := range []struct{ in, want string }{ // want is part of the error; "": no error
		{"a", ""},
		{"a/b", ""},
		{"..", ""},
		{"trash", ""},
		{"a\nb", ""},
		{"größe", ""},
		{strings.Repeat("x", 256), ""},
		{"", "empty value"},
		{strings.Repeat("x", 257), "longer than 256 bytes"},
		{strings.Repeat("x", 300), "longer than 256 bytes"},
		{strings.Repeat("ü", 129), "longer than 256 bytes"},
		{"a\x00", "contains NUL"},
		{"a\xff", "not valid UTF-8"},
		{"a\ufffd", "not valid UTF-8"},
	} {
		s, err := ParseSubject(tt.in)
		switch {
		case tt.want == "" && (err != nil || string(s) != tt.in):
			t.Errorf("ParseSubject(%q) = %q, %v", tt.in, s, err)
		case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want) || s != ""):
			t.Errorf("ParseSubject(%q) = %q, %v; want an error with %q", tt.in, s, err, tt.want)
		}
	}
}

func TestSubjectDir(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"default", "default"},
		{"Alice", "Alice"},
		{"alice@example.com", "alice%40example.com"},
		{"a_b-c.d", "a_b-c.d"},
		{"a/b", "a%2Fb"},
		{"a%2Fb", "a%252Fb"},
		{".", "%2E"},
		{"..", "%2E."},
		{".tmp", "%2Etmp"},
		{"-x", "%2Dx"},
		{"_x", "%5Fx"},
		{"trash", "%74rash"},
		{"trash1", "trash1"},
		{"a\nb", "a%0Ab"},
		{"ü", "%C3%BC"},
		{strings.Repeat("x", 200), strings.Repeat("x", 200)},
		// printf 'x%.0s' $(seq 201) | sha256sum
		{strings.Repeat("x", 201), "sha256%-84a0678c90937f5dcf9994d5866668da6b995109c8ad845410559b48a4ecafed"},
		{"", "sha256%-e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
	} {
		if got := Subject(tt.in).Dir(); got != tt.want {
			t.Errorf("Subject(%q).Dir() = %q, want %q", tt.in, got, tt.want)
		}
	}
}

var safeDir = regexp.MustCompile(`^[A-Za-z0-9%][A-Za-z0-9._%-]{0,199}$`)

func TestSubjectDirIsInjective(t *testing.T) {
	seen := map[string]Subject{}
	check := func(s Subject) {
		dir := s.Dir()
		if !safeDir.MatchString(dir) || dir == "trash" {
			t.Errorf("Subject(%q).Dir() = %q is not a safe name", s, dir)
		}
		if other, ok := seen[dir]; ok && other != s {
			t.Errorf("Subject(%q) and Subject(%q) share %q", s, other, dir)
		}
		seen[dir] = s
	}
	adversarial := []Subject{
		"a/b", "a_b", "a%2Fb", "a%2fb", "a%252Fb", "A/B", "A_B", "a b", "a+b", "a\\b", "a:b", "a,b",
		".", "..", "...", "%2E", "%2E.", "%2E%2E", "%252E", "./a", "../a", "a/..", "/", "//", "%", "%%", "%2", "%-",
		"trash", "%74rash", "%74%72%61%73%68", "Trash", "TRASH", "trash/", "locks", "tmp", ".tmp", "lost+found", "default", "Default",
		"a", "A", "a\n", "a\r", "\n", "\x01", "a\nb", "\x7f", "ü", "u\u0308", "%C3%BC", "日本", "CON", "-rf", "--", "_",
		"sha256", "sha256%-", "sha256%2D", "sha256-",
	}
	for n := 190; n <= maxSubject; n++ {
		adversarial = append(adversarial, Subject(strings.Repeat("x", n)), Subject(strings.Repeat("/", n)), Subject(strings.Repeat("X", n)))
	}
	for _, s := range adversarial {
		check(s)
	}
	// A directory's name as a subject, as an attacker would choose it to get into another subject's directory.
	for range 3 {
		for dir := range seen {
			if len(dir) <= maxSubject {
				adversarial = append(adversarial, Subject(dir))
			}
		}
		for _, s := range adversarial {
			check(s)
		}
	}
	// Few letters make near misses likely. The seed is fixed, so that a failure can be repeated.
	random := rand.New(rand.NewPCG(1, 2))
	letters := []byte("aA/%2Ff.-_tsh\n0")
	for range 50000 {
		text := make([]byte, 1+random.IntN(7))
		for i := range text {
			text[i] = letters[random.IntN(len(letters))]
		}
		check(Subject(text))
	}
	for range 5000 {
		text := make([]byte, 1+random.IntN(maxSubject))
		for i := range text {
			text[i] = byte(random.IntN(256))
		}
		check(Subject(text))
	}
}
