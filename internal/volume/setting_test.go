package volume

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
)

func TestParseDefaults(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want map[string]string
	}{
		{"", map[string]string{}},
		{" ,\n,", map[string]string{}},
		{"cache=off", map[string]string{"cache": "off"}},
		{"cache=off,refresh=30s", map[string]string{"cache": "off", "refresh": "30s"}},
		{" cache = off ,\r\n ref=main\n", map[string]string{"cache": "off", "ref": "main"}},
		{"subject=a=b c", map[string]string{"subject": "a=b c"}},
		{"ref=", map[string]string{"ref": ""}},
	} {
		got, err := ParseDefaults(tt.in)
		if err != nil || !maps.Equal(got, tt.want) {
			t.Errorf("ParseDefaults(%q) = %q, %v; want %q", tt.in, got, err, tt.want)
		}
	}
}

func TestParseDefaultsRefuses(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"repo=https://user:secret@h/x", `option "repo": can't have a default`},
		{"cache=off,url=x", `option "url": can't have a default`},
		{"colour=red", `option "colour": unknown option; allowed: repo (or url), ref,`},
		{"cache", `option "cache": has no value; allowed: name=value`},
		{"https://user:secret@h/x", `option "https://***@h/x": has no value`},
		{"=x", `option "": unknown option`},
		{"uid=1,uid=1", `option "uid": given twice`},
		{"uid=x", `option "uid": "x" is not a valid number`},
		{"cache=off refresh=30s", `option "cache": "off refresh=30s" is not supported; allowed: shared, off`},
		{"cache=", `option "cache": empty value`},
	} {
		got, err := ParseDefaults(tt.in)
		if bad, ok := errors.AsType[*OptionError](err); !ok || !strings.HasPrefix(bad.Error(), tt.want) || got != nil {
			t.Errorf("ParseDefaults(%q) = %q, %v; want %s", tt.in, got, err, tt.want)
		}
	}
}

func TestParseSchemes(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want []string
		err  string
	}{
		{"", []string{"https", "http"}, ""},
		{" , ", []string{"https", "http"}, ""},
		{"ssh", []string{"https", "http", "ssh"}, ""},
		{"SSH,git", []string{"https", "http", "git", "ssh"}, ""},
		{"git\tssh git", []string{"https", "http", "git", "ssh"}, ""},
		{"file", nil, `scheme "file" can't be added to https and http; allowed: git, ssh`},
		{"ssh,ext", nil, `scheme "ext" can't be added to https and http; allowed: git, ssh`},
		{"https", nil, `scheme "https" can't be added to https and http; allowed: git, ssh`},
		{"https://user:secret@h/x", nil, `scheme "https://***@h/x" can't be added to https and http; allowed: git, ssh`},
	} {
		s, err := ParseSchemes(tt.in)
		if tt.err != "" {
			if err == nil || err.Error() != tt.err || s != (Schemes{}) {
				t.Errorf("ParseSchemes(%q) = %v, %v; want %s", tt.in, s.List(), err, tt.err)
			}
			continue
		}
		if err != nil || !slices.Equal(s.List(), tt.want) {
			t.Errorf("ParseSchemes(%q) = %v, %v; want %v", tt.in, s.List(), err, tt.want)
		}
		for _, scheme := range []string{"https", "http", "git", "ssh", "file", "ext", ""} {
			if got, want := s.Allows(scheme), slices.Contains(tt.want, scheme); got != want {
				t.Errorf("ParseSchemes(%q).Allows(%q) = %v, want %v", tt.in, scheme, got, want)
			}
		}
	}
}

func TestIsGenerated(t *testing.T) {
	name := strings.Repeat("0123456789abcdef", 4)
	for in, want := range map[string]bool{
		name: true, strings.Repeat("0", 64): true,
		"": false, "v": false, name[1:]: false, name + "0": false, strings.ToUpper(name): false, "g" + name[1:]: false, name[1:] + "-": false,
	} {
		if got := IsGenerated(in); got != want {
			t.Errorf("IsGenerated(%q): %v, want %v", in, got, want)
		}
	}
}

func TestCheckName(t *testing.T) {
	for _, tt := range []struct{ in, want string }{ // want is part of the error; "": no error
		{"v", ""},
		{strings.Repeat("0123456789abcdef", 4), ""},
		{"my volume+größe", ""},
		{"...", ""},
		{"-v", ""},
		{strings.Repeat("x", 255), ""},
		{"", "is empty"},
		{strings.Repeat("x", 256), "longer than 255 bytes"},
		{".", "a directory's own name"},
		{"..", "a directory's own name"},
		{"a/b", `volume name "a/b" contains a slash`},
		{"https://user:secret@h/x", `volume name "https://***@h/x" contains a slash`},
		{"a\x00", "control character"},
		{"a\nb", "control character"},
		{"a\x7f", "control character"},
		{"a\u0085", "control character"},
		{"a\xff", "not valid UTF-8"},
	} {
		got := ""
		if err := CheckName(tt.in); err != nil {
			got = err.Error()
		}
		if (tt.want == "") != (got == "") || !strings.Contains(got, tt.want) {
			t.Errorf("CheckName(%q): %q, want %q", tt.in, got, tt.want)
		}
	}
}
