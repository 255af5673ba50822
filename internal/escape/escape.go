// Package escape writes texts of others (names, claims, messages of servers) so that a terminal
// that shows them interprets nothing in them: logs, the audit log and the labels of metrics have
// no character that is not printable.
package escape

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// AppendJSON appends a line of JSON without its line break, and escapes each character in it that
// is not printable. The line stays the same JSON. encoding/json itself escapes only a part of them.
func AppendJSON(to, line []byte) []byte {
	for len(line) > 0 {
		c, n := utf8.DecodeRune(line)
		switch {
		case c < utf8.RuneSelf && c != 0x7f, unicode.IsPrint(c):
			to = append(to, line[:n]...)
		default:
			to = appendEscaped(to, c)
		}
		line = line[n:]
	}
	return to
}

// Text returns a text with each character in it that is not printable escaped as in JSON.
func Text(text string) string {
	if !strings.ContainsFunc(text, unprintable) {
		return text
	}
	var to []byte
	for _, c := range text {
		if unprintable(c) {
			to = appendEscaped(to, c)
		} else {
			to = utf8.AppendRune(to, c)
		}
	}
	return string(to)
}

func unprintable(c rune) bool { return !unicode.IsPrint(c) }

// appendEscaped appends a character as JSON escapes it.
func appendEscaped(to []byte, c rune) []byte {
	if c > 0xffff {
		high, low := utf16.EncodeRune(c)
		return fmt.Appendf(to, `\u%04x\u%04x`, high, low)
	}
	return fmt.Appendf(to, `\u%04x`, c)
}

// Name returns a name as it is if all of it is printable, and else in quotes, as Go writes a
// string. Different names stay different.
func Name(name string) string {
	if strings.HasPrefix(name, `"`) || strings.ContainsFunc(name, func(r rune) bool { return r == utf8.RuneError || !unicode.IsPrint(r) }) {
		return strconv.Quote(name)
	}
	return name
}
