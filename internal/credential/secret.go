package credential

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// redacted replaces every secret, also the empty one.
const redacted = "[redacted]"

// Secret is a text that only Reveal returns: all verbs of fmt, and encoders to JSON and
// text, get "[redacted]". Decoding JSON sets the real text.
type Secret struct {
	// A pointer, because fmt can't call methods on an unexported field of another type:
	// it then prints the address.
	text *string
}

// NewSecret returns text as a Secret.
func NewSecret(text string) Secret { return Secret{&text} }

// Reveal returns the text. Call it only where the text is sent to its remote or written
// to its file.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redacted) }

func (s Secret) String() string { return redacted }

func (s Secret) GoString() string { return redacted }

func (s Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// UnmarshalJSON reads a JSON string. Its error does not repeat the input.
func (s *Secret) UnmarshalJSON(data []byte) error {
	var text *string
	if err := json.Unmarshal(data, &text); err != nil || text == nil {
		return errors.New("a secret is not a JSON string")
	}
	s.text = text
	return nil
}
