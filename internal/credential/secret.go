package credential

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// redacted stands for every secret, the empty one too.
const redacted = "[redacted]"

// Secret is a text that shows itself to nobody but Reveal: all verbs of fmt, and
// encoders to JSON and text, get "[redacted]". From JSON it is read as it is.
type Secret struct {
	// A pointer, for fmt can't call methods on what is in an unexported field
	// of somebody else's type, and prints the address then.
	text *string
}

// NewSecret hides text.
func NewSecret(text string) Secret { return Secret{&text} }

// Reveal returns the text. Call it where the text leaves for its remote, or for
// its file, and nowhere else.
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

func (s Secret) MarshalJSON() ([]byte, error) { return json.Marshal(redacted) }

// UnmarshalJSON reads a JSON string. Its error does not repeat what it read.
func (s *Secret) UnmarshalJSON(data []byte) error {
	var text *string
	if err := json.Unmarshal(data, &text); err != nil || text == nil {
		return errors.New("a secret is not a JSON string")
	}
	s.text = text
	return nil
}
