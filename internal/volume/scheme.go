package volume

import (
	"fmt"
	"slices"
	"strings"
)

// Schemes is a set of allowed URL schemes. The zero value has https and http, which are always
// allowed. Helpers (ext::, fd::) and file never are.
type Schemes struct {
	ssh, git bool
}

// AllSchemes allows every scheme that this package knows. Use it to read stored records, because a record must stay
// readable after a change of ALLOW_SCHEMES. Check with Allows before a fetch.
func AllSchemes() Schemes { return Schemes{ssh: true, git: true} }

// ParseSchemes reads the setting ALLOW_SCHEMES: schemes in addition to https and http, separated by commas or white
// space, of any case. Only git and ssh (which includes user@host:path) can be added. An empty text adds none.
func ParseSchemes(text string) (Schemes, error) {
	var s Schemes
	for field := range strings.FieldsFuncSeq(text, func(r rune) bool { return strings.ContainsRune(", \t\r\n", r) }) {
		switch strings.ToLower(field) {
		case "git":
			s.git = true
		case "ssh":
			s.ssh = true
		default:
			return Schemes{}, fmt.Errorf("scheme %q can't be added to https and http; allowed: git, ssh", shown(field))
		}
	}
	return s, nil
}

// List returns the allowed schemes in lower case, https first, in a fixed order.
func (s Schemes) List() []string {
	list := []string{"https", "http"}
	if s.git {
		list = append(list, "git")
	}
	if s.ssh {
		list = append(list, "ssh")
	}
	return list
}

// Allows reports whether scheme, in lower case, is allowed.
func (s Schemes) Allows(scheme string) bool { return slices.Contains(s.List(), scheme) }

// allowed describes the accepted URLs in an error.
func (s Schemes) allowed() string {
	return "a URL such as https://host/path, its scheme one of " + strings.Join(s.List(), ", ")
}
