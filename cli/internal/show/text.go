// Package show prints for people and for scripts. Its output includes names that users of the engine
// choose, so it escapes characters that would change a terminal or the lines of a table.
package show

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Text returns s for a table: each character that is not printable is replaced by an escape as in JSON,
// and each byte that is not UTF-8 by \x and two digits.
func Text(s string) string { return escape(s, "") }

// escape is Text, but leaves the characters of keep as they are.
func escape(s, keep string) string {
	bad := func(r rune) bool { return r == utf8.RuneError || !unicode.IsPrint(r) && !strings.ContainsRune(keep, r) }
	if strings.IndexFunc(s, bad) < 0 {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case r == utf8.RuneError || !bad(r):
			b.WriteRune(r)
		case r > 0xffff: // JSON escapes have four digits
			r -= 0x10000
			fmt.Fprintf(&b, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		s = s[n:]
	}
	return b.String()
}

// Lines returns s with its line breaks and tabs, and all else as Text has it.
func Lines(s string) string { return escape(s, "\n\t") }

// terminal is a writer to a terminal that escapes as Lines does.
type terminal struct{ w io.Writer }

// Terminal returns a writer to a terminal. Each Write must have whole characters.
func Terminal(w io.Writer) io.Writer { return terminal{w} }

func (t terminal) Write(p []byte) (int, error) {
	if _, err := io.WriteString(t.w, Lines(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Shorten returns s with at most n characters; an ellipsis is in place of the others.
func Shorten(s string, n int) string {
	r := []rune(s)
	if len(r) <= n {
		return s
	}
	return string(r[:n-1]) + "…"
}
