package gitref

import "strings"

// The formats of a repository's object IDs.
const (
	SHA1   = "sha1"
	SHA256 = "sha256"
)

// IsObjectID reports whether s is a full SHA-1 or SHA-256 in lower-case hex.
func IsObjectID(s string) bool {
	return (len(s) == 40 || len(s) == 64) && strings.Trim(s, "0123456789abcdef") == ""
}

// Format returns the format of a full object ID, SHA1 or SHA256, by its length.
func Format(id string) string {
	if len(id) == 64 {
		return SHA256
	}
	return SHA1
}
