package gitref

import "encoding/json"

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
