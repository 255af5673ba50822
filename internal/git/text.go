package git

import (
	"encoding/json"
	"strings"
)

// Text is what a repository says, such as a name, which need not be UTF-8: JSON has it as
// base64.
type Text string

func (t Text) MarshalJSON() ([]byte, error) { return json.Marshal([]byte(t)) }

func (t *Text) UnmarshalJSON(data []byte) error {
	var b []byte
	err := json.Unmarshal(data, &b)
	*t = Text(b)
	return err
}

// maxWords is in bytes: a known_hosts line of an RSA key with 4096 bits, and what
// is said about it.
const maxWords = 1000

// Printable is text without control characters, and cut where it is too long.
func Printable(text string) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, text)
	if len(text) > maxWords {
		text = strings.ToValidUTF8(text[:maxWords], "") + "…"
	}
	return text
}

// IsObjectID reports whether s is a full SHA-1 or SHA-256 in lower-case hex.
func IsObjectID(s string) bool {
	if len(s) != 40 && len(s) != 64 {
		return false
	}
	return strings.Trim(s, "0123456789abcdef") == ""
}
