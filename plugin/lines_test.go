package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode"

	"github.com/sirupsen/logrus"
)

// TestLinesArePrintable checks that nothing in a message or a field breaks a line of the log, or
// writes to a terminal that shows it, in both formats.
func TestLinesArePrintable(t *testing.T) {
	t.Parallel()
	const text = "a\x1b]0;owned\x07\r\nb\x7f\u009b2J\u202etxt.\u2028\U000e0001\xff"
	for name, format := range map[string]logrus.Formatter{"text": textLines, "json": jsonLines{}} {
		var b bytes.Buffer
		log := logrus.New()
		log.SetOutput(&b)
		log.SetFormatter(format)
		log.WithFields(logrus.Fields{"name": text, "list": []string{text}}).WithError(errors.New(text)).Error(text)
		line, ok := strings.CutSuffix(b.String(), "\n")
		if !ok || strings.ContainsFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("%s: got %q", name, b.String())
		}
		var fields map[string]any
		if err := json.Unmarshal(b.Bytes(), &fields); name == "json" && (err != nil || fields["name"] != strings.ToValidUTF8(text, "\ufffd")) {
			t.Errorf("%s: %v, %q", name, err, fields["name"])
		}
	}
}
