package volume

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	// maxSubject is in bytes.
	maxSubject = 256
	// maxDir leaves room in a file name (255 bytes) for the prefixes and suffixes of temporary names.
	maxDir = 200
	// hashPrefix can't collide with an encoded name, where two hexadecimal digits follow
	// every %.
	hashPrefix = "sha256%-"
)

// Subject is the owner of a clone: one trust domain. It is free text; use Dir for paths.
type Subject string

// DefaultSubject is the subject of a volume whose options name none.
const DefaultSubject Subject = "default"

// ParseSubject accepts 1 to 256 bytes of UTF-8 without NUL. It refuses U+FFFD, because JSON decoding replaces every
// byte that is not UTF-8 by it, so that different subjects would become one. The error is an *OptionError for
// "subject".
func ParseSubject(text string) (Subject, error) {
	subject, problem := parseSubject(text)
	return subject, refuse(optSubject, text, problem, allowedSubject)
}

func parseSubject(text string) (subject Subject, problem string) {
	switch {
	case text == "":
		return "", emptyValue
	case len(text) > maxSubject:
		return "", "is longer than " + strconv.Itoa(maxSubject) + " bytes"
	case !utf8.ValidString(text) || strings.ContainsRune(text, utf8.RuneError):
		return "", "is not valid UTF-8"
	case strings.ContainsRune(text, 0):
		return "", "contains NUL"
	}
	return Subject(text), ""
}

const allowedSubject = "1 to 256 bytes of UTF-8 text without NUL"

// Dir returns the name of the subject's directory. Different subjects have different directories. The name
// consists of A-Z a-z 0-9 . _ - and %, begins with a letter, a digit or %, has at most 200 bytes, and is
// never "trash".
//
// Letters, digits and - _ . stand for themselves, except that the first byte has to be a letter or a digit; every
// other byte is % and two upper-case hexadecimal digits. If the result would be empty or longer than 200 bytes, the
// name is "sha256%-" and the SHA-256 of the subject in hexadecimal. Names are case-sensitive, so the filesystem
// must be too.
func (s Subject) Dir() string {
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		alnum := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		// A subject's directory must not be mistaken for a trash directory.
		if (alnum || i > 0 && (c == '-' || c == '_' || c == '.')) && (i > 0 || s != "trash") {
			b.WriteByte(c)
			continue
		}
		fmt.Fprintf(&b, "%%%02X", c)
	}
	if b.Len() == 0 || b.Len() > maxDir {
		sum := sha256.Sum256([]byte(s))
		return hashPrefix + hex.EncodeToString(sum[:])
	}
	return b.String()
}
