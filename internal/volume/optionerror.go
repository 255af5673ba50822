package volume

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// shownBytes bounds how much of a value an error repeats: a request may be 1 MiB, an error is one line.
const shownBytes = 200

// OptionError says which option was wrong, how, and what would be right. Option and Value are safe to show:
// they were redacted when the error was made.
type OptionError struct {
	Option  string // as the user spelled it
	Value   string // redacted and cut; empty if there is none to show
	Problem string // follows the value: "is not a duration"
	Allowed string // what would be accepted; may be empty
}

// Error returns one line, such as: option "refresh": "soon" is not a duration; allowed: always, never, a duration such as 30s
func (e *OptionError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "option %q: ", e.Option)
	if e.Value != "" {
		fmt.Fprintf(&b, "%q ", e.Value)
	}
	b.WriteString(e.Problem)
	if e.Allowed != "" {
		b.WriteString("; allowed: ")
		b.WriteString(e.Allowed)
	}
	return b.String()
}

// newOptionError is the only maker of an OptionError, so that nothing gets around the redaction. The option's name is
// redacted too: the docker CLI makes a name of a URL that was given without "repo=" before it.
func newOptionError(option, value, problem, allowed string) *OptionError {
	if option == optRepo || option == optURL {
		value = redact(value)
	}
	return &OptionError{Option: shown(option), Value: shown(value), Problem: problem, Allowed: allowed}
}

// shown makes text fit for an error: redacted if it looks like a URL, and cut at a rune's boundary.
func shown(text string) string {
	if strings.Contains(text, "://") {
		text = redact(text)
	}
	if len(text) <= shownBytes {
		return text
	}
	end := shownBytes
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "..."
}

var schemeText = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*$`)

// redact hides what may be a secret in something that was meant as a URL. It sees what did not parse, so it guesses
// on the safe side: all before the last @ goes, and an authority stays only if it is a host and a port. Redacting
// twice changes nothing.
func redact(text string) string {
	const stars = "***"
	prefix, rest, isURL := "", text, false
	if scheme, after, ok := strings.Cut(text, "://"); ok && schemeText.MatchString(scheme) {
		prefix, rest, isURL = scheme+"://", after, true
	}
	for _, at := range []string{"%40", "@"} {
		if i := strings.LastIndex(rest, at); i >= 0 {
			rest = stars + "@" + rest[i+len(at):]
		}
	}
	if i := strings.IndexAny(rest, "?#"); i >= 0 {
		rest = rest[:i+1] + stars
	}
	if !isURL {
		return rest
	}
	if tail, ok := strings.CutPrefix(rest, stars+"@"); ok {
		prefix, rest = prefix+stars+"@", tail
	}
	end := strings.IndexByte(rest, '/')
	if end < 0 {
		end = len(rest)
	}
	if _, _, problem := splitHost(rest[:end]); problem != "" && end > 0 {
		return prefix + stars + rest[end:]
	}
	return prefix + rest
}
