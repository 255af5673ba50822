package githelper

import (
	"io"
	"strings"
	"testing"
)

// TestNew: the pipe has the credential, and no more lines than git asked for. A line break in a secret
// would be a line of its own, which git obeys.
func TestNew(t *testing.T) {
	t.Parallel()
	for _, c := range []Credential{{User: "u", Password: "a b"}, {Bearer: "tok"}} {
		config, pipe, err := New("https://h/r", c)
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(pipe)
		pipe.Close()
		if secret := c.Password + c.Bearer; err != nil || strings.Count(string(data), secret) != blocks || strings.Contains(strings.Join(config, "\n"), secret) {
			t.Errorf("%q with the configuration %q, %v", data, config, err)
		}
	}
	for name, c := range map[string]Credential{
		"user": {User: "u\nquit=1", Password: "p"}, "password": {User: "u", Password: "p\nurl=https://other"},
		"token": {Bearer: "t\nurl=https://other"}, "zero": {Bearer: "t\x00"}, "long": {Bearer: strings.Repeat("x", pipeRoom)},
	} {
		if _, pipe, err := New("https://h/r", c); err == nil {
			pipe.Close()
			t.Errorf("%s: accepted", name)
		} else if strings.Contains(err.Error(), c.User+c.Password) && c.User != "" {
			t.Errorf("%s: %v", name, err)
		}
	}
}
