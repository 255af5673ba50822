package volume

import (
	"maps"
	"regexp"
	"slices"
)

var discardID = regexp.MustCompile(`^[0-9a-f]{16}$`)

// parseRestore reads the ID of a discard.
func parseRestore(text string) (string, error) {
	if text == "" || discardID.MatchString(text) {
		return text, nil
	}
	return "", newOptionError(optRestore, text, "is not the ID of a discard", "16 hex digits, as GET /v1/discards on the admin socket lists them")
}

// free are the options that a restored volume may have otherwise than the one whose discard it starts from: they say how
// the remote is asked, and not what the workspace is.
var free = []string{optRefresh, optStaleIfError, optCredential, optMode, optRestore}

// ParseRestored is Parse for a volume that starts from what another one with the options from, a Map, has left. What is not
// given is taken from there, but the subject. What is given must be the same, but for how the remote is asked.
func ParseRestored(given, defaults, from map[string]string, schemes Schemes) (Options, error) {
	inherited := maps.Clone(from)
	for _, name := range []string{optRepo, optURL, optMode, optRestore, optSubject} {
		delete(inherited, name)
	}
	if subject, ok := defaults[optSubject]; ok {
		inherited[optSubject] = subject
	}
	o, err := Parse(given, inherited, schemes)
	if err != nil {
		return Options{}, err
	}
	was, err := Parse(from, nil, AllSchemes())
	if err != nil {
		return Options{}, err
	}
	if o.Repo.Normalized() != was.Repo.Normalized() {
		return Options{}, newOptionError(optRepo, o.Repo.String(), "is not that of the discard", was.Repo.String())
	}
	for _, opt := range options {
		if is, want := opt.get(o), opt.get(was); is != want && !slices.Contains(free, opt.name) {
			return Options{}, newOptionError(opt.name, is, "is not that of the discard", want+" (an option that is left out is taken from there)")
		}
	}
	return o, nil
}
