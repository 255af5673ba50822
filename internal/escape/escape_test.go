package escape

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"
)

var texts = []string{
	"", "team a", "ä😀", "a\nb", "a\r\nb", "\x1b[2J", "\u009b2J", "\u202eabc", "\u2028", "\x7f", "\x00", "\U000e0001", `"},{"seq":1`,
	`a\x1b`, "a\x1b", `"a\x1b"`, `"`, `""`, "\xff\xfe", "\ufffd", "\u00a0",
}

func printable(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) })
}

func TestName(t *testing.T) {
	t.Parallel()
	of := make(map[string]string)
	for _, text := range texts {
		got := Name(text)
		if !printable(got) {
			t.Errorf("%q becomes %q", text, got)
		}
		if other, taken := of[got]; taken {
			t.Errorf("%q and %q become %q", other, text, got)
		}
		of[got] = text
	}
	if got := Name("team ä"); got != "team ä" {
		t.Errorf("got %q", got)
	}
}

func TestAppendJSON(t *testing.T) {
	t.Parallel()
	for _, text := range texts {
		line, err := json.Marshal(map[string]string{text: text})
		if err != nil {
			t.Fatal(err)
		}
		got := AppendJSON([]byte("before"), line)
		if !printable(string(got)) {
			t.Errorf("%q becomes %q", text, got)
		}
		var same map[string]string
		want := strings.ToValidUTF8(text, "\ufffd")
		if text == "\xff\xfe" {
			want = "\ufffd\ufffd"
		}
		if err := json.Unmarshal(got[len("before"):], &same); err != nil || same[want] != want {
			t.Errorf("%q becomes %q: %v, %q", text, got, err, same)
		}
	}
}
