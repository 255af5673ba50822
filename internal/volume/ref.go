package volume

import (
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxRef is the longest ref in bytes: four times the limit of file names, and so of most servers' refs.
const maxRef = 1024

// RefKind says how a Ref is to be looked up.
type RefKind int

const (
	// RefDefault is the remote's HEAD, whatever it points to when it is asked.
	RefDefault RefKind = iota
	// RefFull is a full name that begins with refs/.
	RefFull
	// RefSHA is a full object name of 40 or 64 hexadecimal digits in lower case.
	RefSHA
	// RefName is a branch or a tag, or perhaps an abbreviated SHA (MaybeAbbrev).
	RefName
)

// Ref names a commit of a repository. The zero Ref is the remote's HEAD. Refs can be compared with ==.
type Ref struct {
	kind RefKind
	name string
}

var (
	fullSHA   = regexp.MustCompile(`^([0-9a-fA-F]{40}|[0-9a-fA-F]{64})$`)
	abbrevSHA = regexp.MustCompile(`^[0-9a-fA-F]{7,63}$`)
)

// ParseRef reads a branch, a tag, a full ref or a SHA. The empty text and HEAD mean the remote's HEAD.
//
// It refuses what git check-ref-format refuses, and also a leading dash, invalid UTF-8, and more than 1024 bytes.
// The error is an *OptionError for "ref".
func ParseRef(text string) (Ref, error) {
	ref, problem := parseRef(text)
	return ref, refuse(optRef, text, problem, allowedRef)
}

func parseRef(text string) (ref Ref, problem string) {
	if text == "" || text == "HEAD" {
		return Ref{}, ""
	}
	if problem := checkRef(text); problem != "" {
		return Ref{}, problem
	}
	switch {
	case fullSHA.MatchString(text):
		return Ref{RefSHA, strings.ToLower(text)}, ""
	case strings.HasPrefix(text, "refs/"):
		return Ref{RefFull, text}, ""
	}
	return Ref{RefName, text}, ""
}

const allowedRef = "a branch, a tag, a full ref such as refs/pull/7/head, a SHA, HEAD"

// checkRef implements git check-ref-format --allow-onelevel (see its manual), with a
// limit on the length.
func checkRef(name string) (problem string) {
	switch {
	case len(name) > maxRef:
		return "is longer than " + strconv.Itoa(maxRef) + " bytes"
	case !utf8.ValidString(name):
		return "is not valid UTF-8"
	case name[0] == '-':
		return "begins with a dash"
	case name == "@":
		return "is not a ref"
	case strings.HasSuffix(name, "."):
		return "ends with a dot"
	}
	for _, bad := range []string{"..", "@{"} {
		if strings.Contains(name, bad) {
			return "contains " + bad
		}
	}
	if i := strings.IndexAny(name, " ~^:?*[\\"); i >= 0 {
		return "contains " + strconv.QuoteRune(rune(name[i]))
	}
	if strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return "contains a control character"
	}
	for component := range strings.SplitSeq(name, "/") {
		switch {
		case component == "":
			return "begins or ends with a slash, or has two in a row"
		case component[0] == '.':
			return "has a component that begins with a dot"
		case strings.HasSuffix(component, ".lock"):
			return "has a component that ends with .lock"
		}
	}
	return ""
}

// Kind says how to look the ref up.
func (r Ref) Kind() RefKind { return r.kind }

// String returns the ref as the user wrote it, a SHA in lower case, and HEAD for the remote's HEAD. ParseRef
// returns r for it.
func (r Ref) String() string {
	if r.kind == RefDefault {
		return "HEAD"
	}
	return r.name
}

// MaybeAbbrev reports whether a RefName can also be read as an abbreviated SHA: 7 to 63 hexadecimal digits. A
// branch or a tag of that name takes precedence.
func (r Ref) MaybeAbbrev() bool { return r.kind == RefName && abbrevSHA.MatchString(r.name) }
