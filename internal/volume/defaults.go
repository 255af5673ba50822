package volume

import "strings"

// ParseDefaults reads the setting DEFAULT_OPTS: name=value pairs separated by commas or newlines, such as
// "cache=off,refresh=30s". It drops space around names and values and ignores empty pairs; a value can't contain a
// comma or a newline. The result is for Parse.
//
// It checks names and values as Parse does. A default for repo, url or restore, and a repeated name, are errors
// too. Every error is an *OptionError.
func ParseDefaults(text string) (map[string]string, error) {
	defaults := map[string]string{}
	for pair := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ',' || r == '\n' }) {
		name, value, ok := strings.Cut(pair, "=")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if name == "" && value == "" && !ok {
			continue
		}
		if !ok {
			return nil, newOptionError(name, "", "has no value", "name=value")
		}
		if _, twice := defaults[name]; twice {
			return nil, newOptionError(name, "", "given twice", "")
		}
		defaults[name] = value
	}
	if _, err := parseDefaults(defaults); err != nil {
		return nil, err
	}
	return defaults, nil
}
