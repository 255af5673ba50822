package volume

import (
	"maps"
	"regexp"
	"slices"
)

var checkpointID = regexp.MustCompile(`^[0-9a-f]{16}$`)

const allowedFrom = "16 hex digits, as docker repos checkpoints ls lists them"

// parseFrom reads the ID of a checkpoint.
func parseFrom(text string) (id, problem string) {
	if text != "" && !checkpointID.MatchString(text) {
		return "", "is not the ID of a checkpoint"
	}
	return text, ""
}

// mayDiffer lists the options that need not be those of the volume that left the checkpoint: they say how to ask the
// remote, and what for, who shares the workspace, what others get of it, or how much it may hold, not what it is.
var mayDiffer = []string{optRef, optRefresh, optStaleIfError, optCredential, optMode, optCold, optFrom, optPublish, optSize, optInodes}

// ParseFrom is Parse for a volume that begins with a checkpoint of a volume with the options left, a Map. It takes options
// that are not given from there, except the subject and the mode. Those that are given must be the same, except those
// of mayDiffer, and auth=none: auth=container needs what the first mount wrote into .git/config. A ref is an error.
func ParseFrom(given, defaults, left map[string]string, schemes Schemes) (Options, error) {
	if ref := given[optRef]; ref != "" {
		return Options{}, refuse(optRef, ref, "can't be with from: the workspace begins on the commit of the checkpoint, with the branches that it had", "")
	}
	inherited := maps.Clone(left)
	for _, name := range []string{optRepo, optURL, optMode, optFrom, optSubject} {
		delete(inherited, name)
		if value, ok := defaults[name]; ok {
			inherited[name] = value
		}
	}
	given = maps.Clone(given)
	delete(given, optRef) // an empty one is none, as compose passes it
	o, err := Parse(given, inherited, schemes)
	if err != nil {
		return Options{}, err
	}
	if err := CheckFrom(o, left); err != nil {
		return Options{}, err
	}
	return o, nil
}

// CheckFrom returns an error if a volume can't begin with a checkpoint of a volume with the options left, a Map, whatever the
// ref of either.
func CheckFrom(o Options, left map[string]string) error {
	was, err := Parse(left, nil, AllSchemes())
	if err != nil {
		return err
	}
	if o.Repo.Normalized() != was.Repo.Normalized() {
		return refuse(optRepo, o.Repo.String(), "is not that of the checkpoint", was.Repo.String())
	}
	for _, opt := range options {
		if is, want := opt.get(&o), opt.get(&was); is != want && !slices.Contains(mayDiffer, opt.name) && !(opt.name == optAuth && o.Auth == AuthNone) {
			return refuse(opt.name, is, "is not that of the checkpoint", want+" (an option that is left out is taken from there)")
		}
	}
	return nil
}
