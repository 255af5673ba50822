package volume

import (
	"maps"
	"regexp"
	"slices"
)

var discardID = regexp.MustCompile(`^[0-9a-f]{16}$`)

const allowedRestore = "16 hex digits, as GET /v1/discards on the admin socket lists them"

// parseRestore reads the ID of a discard.
func parseRestore(text string) (id, problem string) {
	if text != "" && !discardID.MatchString(text) {
		return "", "is not the ID of a discard"
	}
	return text, ""
}

// mayDiffer lists the options that need not be those of the discarded volume: they say how to ask the remote, not
// what the workspace is.
var mayDiffer = []string{optRefresh, optStaleIfError, optCredential, optMode, optCold, optRestore}

// ParseRestored is Parse for a volume that restores a discard of a volume with the options from, a Map. It takes
// options that are not given from there, except the subject. Those that are given must be the same, except the ones
// that say how to ask the remote, and auth=none: auth=container needs what the first mount wrote into .git/config.
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
		return Options{}, refuse(optRepo, o.Repo.String(), "is not that of the discard", was.Repo.String())
	}
	for _, opt := range options {
		if is, want := opt.get(&o), opt.get(&was); is != want && !slices.Contains(mayDiffer, opt.name) && !(opt.name == optAuth && o.Auth == AuthNone) {
			return Options{}, refuse(opt.name, is, "is not that of the discard", want+" (an option that is left out is taken from there)")
		}
	}
	return o, nil
}
