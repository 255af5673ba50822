package escape

import "testing"

func TestText(t *testing.T) {
	for text, want := range map[string]string{
		"":                "",
		"plain, ä, 漢":     "plain, ä, 漢",
		"\x1b[2J\n\x7f":   `\u001b[2J\u000a\u007f`,
		"a\u202eb\u2028c": `a\u202eb\u2028c`,
		"\U000e0001":      `\udb40\udc01`,
	} {
		if got := Text(text); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}
