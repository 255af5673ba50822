package volume

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// shownBytes is how much of a value an error repeats. A request may have 1 MiB, an error should be one
// line.
const shownBytes = 200

// emptyValue is the problem of an empty value of any option that needs one.
const emptyValue = "empty value"

// OptionError says which option is wrong, why, and what is allowed. Option and Value are redacted.
type OptionError struct {
	Option  string // as the user spelled it
	Value   string // redacted and cut; empty if no value is shown
	Problem string // follows the value: "is not a duration"
	Allowed string // what would be accepted; may be empty
}

// Error returns one line, such as: option "refresh": "soon" is not a duration; allowed: auto, always, never, a duration
// such as 30s
func (e *OptionError) Error() string {
	text := fmt.Sprintf("option %q: ", e.Option)
	if e.Value != "" {
		text += fmt.Sprintf("%q ", e.Value)
	}
	text += e.Problem
	if e.Allowed != "" {
		text += "; allowed: " + e.Allowed
	}
	return text
}

// Fact says what is wrong with the value, for a reader who did not write it, and can't change it.
func (e *OptionError) Fact() string {
	return fmt.Sprintf("%q %s", e.Value, strings.TrimSuffix(e.Problem, storeInstead))
}

// Refuse returns the *OptionError of a request that has options of a volume, and that has a problem of its own.
func Refuse(option, value, problem, allowed string) error {
	return refuse(option, value, problem, allowed)
}

// refuse returns an *OptionError, or nil if there is no problem. No other function makes one, so that every one is
// redacted, the option's name too: the docker CLI takes a URL without "repo=" before it for a name.
func refuse(option, value, problem, allowed string) error {
	if problem == "" {
		return nil
	}
	switch option {
	case optRepo, optURL:
		value = redact(value)
	case optCredential:
		value = "" // the user may have given the secret itself
	}
	return &OptionError{Option: shown(option), Value: shown(value), Problem: problem, Allowed: allowed}
}

// shown prepares text for an error: it redacts what looks like a URL, and cuts at a rune boundary.
func shown(text string) string {
	text = Redact(text)
	if len(text) <= shownBytes {
		return text
	}
	end := shownBytes
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "..."
}

// Redact hides possible secrets in a text if it looks like a URL, whatever it was meant as.
func Redact(text string) string {
	if strings.Contains(text, "://") {
		return redact(text)
	}
	return text
}

var schemeText = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*$`)

// redact hides possible secrets in a text that was meant as a URL. The text may not parse, so it hides too much
// rather than too little: all before the last @, and an authority that is not a host and a port. It is idempotent.
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
