package git

import (
	"encoding/json"
	"strings"
)

// Text is text of a repository, such as a name, that need not be UTF-8. In JSON it is
// base64.
type Text string

func (t Text) MarshalJSON() ([]byte, error) { return json.Marshal([]byte(t)) }

func (t *Text) UnmarshalJSON(data []byte) error {
	var b []byte
	err := json.Unmarshal(data, &b)
	*t = Text(b)
	return err
}

// maxWords, in bytes, is enough for a message with the known_hosts line of a 4096-bit RSA
// key.
const maxWords = 1000

// Printable returns text without control characters, truncated if it is too long.
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
