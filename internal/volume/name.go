package volume

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxName is the longest volume name in bytes, that of a file name.
const maxName = 255

// CheckName returns an error unless name can be the name of a volume: 1 to 255 bytes of UTF-8 without slashes and control
// characters, and neither . nor ...
func CheckName(name string) error {
	problem := ""
	switch {
	case name == "":
		return errors.New("volume name is empty")
	case len(name) > maxName:
		problem = fmt.Sprintf("is longer than %d bytes", maxName)
	case !utf8.ValidString(name):
		problem = "is not valid UTF-8"
	case name == "." || name == "..":
		problem = "is a directory's own name"
	case strings.ContainsRune(name, '/'):
		problem = "contains a slash"
	case strings.ContainsFunc(name, unicode.IsControl):
		problem = "contains a control character"
	}
	if problem != "" {
		return fmt.Errorf("volume name %q %s", shown(name), problem)
	}
	return nil
}

// generatedName is the length of a name that an engine makes.
const generatedName = 64

// IsGenerated reports whether a name is one that Docker Engine and Podman make for a volume without one: 64 lower-case
// hexadecimal digits, at random. Such a volume belongs to the command that created it.
func IsGenerated(name string) bool {
	return len(name) == generatedName && strings.Trim(name, "0123456789abcdef") == ""
}
