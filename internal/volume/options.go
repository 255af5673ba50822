package volume

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Mode says who shares a workspace and when it is reset.
type Mode string

const (
	// ModePrivate gives every mount a workspace of its own, which is reset when the mount ends.
	ModePrivate Mode = "private"
	// ModeShared gives all mounts of a volume one workspace, which is reset when the last of them ends.
	ModeShared Mode = "shared"
	// ModeKeep gives all mounts of a volume one workspace, which stays until the volume is removed.
	ModeKeep Mode = "keep"
)

// Cache says what containers see of the clone's dependency caches.
type Cache string

const (
	// CacheShared mounts the cache of the clone and the uid, writable.
	CacheShared Cache = "shared"
	// CacheReadonly mounts it read-only, and uses warm layers but publishes none.
	CacheReadonly Cache = "readonly"
	// CacheOff mounts no cache.
	CacheOff Cache = "off"
)

// Options are the options of one volume.
type Options struct {
	Repo         URL
	Ref          Ref
	Subject      Subject
	Mode         Mode
	Cache        Cache
	Warm         Warm
	WarmKey      string // separates warm state that must not mix; may be empty
	UID          uint32 // owner of the files, never 4294967295
	GID          uint32 // not derived from UID
	Refresh      Refresh
	StaleIfError time.Duration // how old its last answer may be to be used when the remote does not answer; 0: never
	History      History
	Files        Files
	Credential   string // the name of a stored credential; empty: the one whose scope fits best
	Restore      string // the ID of the discard that the volume starts from, with mode keep; empty: none
}

const (
	optRepo    = "repo"
	optURL     = "url" // another spelling of repo
	optRef     = "ref"
	optSubject = "subject"
	optMode    = "mode"
	optCache   = "cache"
	optWarm    = "warm"
	optWarmKey = "warm_key"
	optUID     = "uid"
	optGID     = "gid"
	optRefresh = "refresh"

	optStaleIfError = "stale_if_error"
	optDepth        = "depth"
	optFilter       = "filter"
	optSparse       = "sparse"
	optSubmodules   = "submodules"
	optLFS          = "lfs"
	optCredential   = "credential"
	optRestore      = "restore"
)

// option sets and gets one field of Options by name.
type option struct {
	name string
	set  func(o *Options, text string) error
	get  func(o Options) string
}

// options has all options in the order in which they are checked and shown, except repo, which needs the schemes
// and has two names.
var options = []option{
	{optRef,
		func(o *Options, text string) (err error) { o.Ref, err = ParseRef(text); return },
		func(o Options) string { return o.Ref.String() }},
	{optSubject,
		func(o *Options, text string) (err error) { o.Subject, err = ParseSubject(text); return },
		func(o Options) string { return string(o.Subject) }},
	{optMode,
		func(o *Options, text string) (err error) {
			o.Mode, err = parseWord(optMode, text, ModePrivate, ModeShared, ModeKeep)
			return
		},
		func(o Options) string { return string(o.Mode) }},
	{optCache,
		func(o *Options, text string) (err error) {
			o.Cache, err = parseWord(optCache, text, CacheShared, CacheReadonly, CacheOff)
			return
		},
		func(o Options) string { return string(o.Cache) }},
	{optWarm,
		func(o *Options, text string) (err error) { o.Warm, err = parseWarm(text); return },
		func(o Options) string { return string(o.Warm) }},
	{optWarmKey,
		func(o *Options, text string) (err error) { o.WarmKey, err = parseWarmKey(text); return },
		func(o Options) string { return o.WarmKey }},
	{optUID,
		func(o *Options, text string) (err error) { o.UID, err = parseID(optUID, text); return },
		func(o Options) string { return formatID(o.UID) }},
	{optGID,
		func(o *Options, text string) (err error) { o.GID, err = parseID(optGID, text); return },
		func(o Options) string { return formatID(o.GID) }},
	{optRefresh,
		func(o *Options, text string) (err error) { o.Refresh, err = parseRefresh(text); return },
		func(o Options) string { return o.Refresh.String() }},
	{optStaleIfError,
		func(o *Options, text string) (err error) { o.StaleIfError, err = parseStale(text); return },
		func(o Options) string { return o.StaleIfError.String() }},
	{optDepth,
		func(o *Options, text string) (err error) { o.History.Depth, err = parseDepth(text); return },
		func(o Options) string { return formatDepth(o.History.Depth) }},
	{optFilter,
		func(o *Options, text string) (err error) {
			o.History.NoBlobs, err = parseFlag(optFilter, text, filterNone, filterBlobs)
			return
		},
		func(o Options) string { return formatFlag(o.History.NoBlobs, filterNone, filterBlobs) }},
	{optSparse,
		func(o *Options, text string) (err error) { o.Files.Sparse, err = parseSparse(text); return },
		func(o Options) string { return string(o.Files.Sparse) }},
	{optSubmodules,
		func(o *Options, text string) (err error) {
			o.Files.Submodules, err = parseSubmodules(text)
			return
		},
		func(o Options) string { return o.Files.Submodules.String() }},
	{optLFS,
		func(o *Options, text string) (err error) {
			o.Files.NoLFS, err = parseFlag(optLFS, text, "true", "false")
			return
		},
		func(o Options) string { return formatFlag(o.Files.NoLFS, "true", "false") }},
	{optCredential,
		func(o *Options, text string) (err error) { o.Credential, err = parseCredential(text); return },
		func(o Options) string { return o.Credential }},
	{optRestore,
		func(o *Options, text string) (err error) { o.Restore, err = parseRestore(text); return },
		func(o Options) string { return o.Restore }},
}

// Parse reads the options of one Create. Those given override defaults (ParseDefaults), which override the built-in
// ones: the remote's HEAD, subject default, mode private, cache shared, uid and gid 0, refresh always,
// stale_if_error 0s, the full history and all files, lfs, no submodules, the credential whose scope fits.
//
// It is strict: an unknown name, in given or in defaults, is an error, as is a missing repo, or a url that differs
// from repo. An empty value is an error too, except for ref, warm, warm_key, sparse, credential and restore, where
// it means none, whatever the default: compose passes one for an unset variable. Every error is an *OptionError;
// the same input always returns the same error.
func Parse(given, defaults map[string]string, schemes Schemes) (Options, error) {
	if err := checkNames(given); err != nil {
		return Options{}, err
	}
	o, err := parseDefaults(defaults)
	if err != nil {
		return Options{}, err
	}
	if o.Repo, err = parseRepo(given, schemes); err != nil {
		return Options{}, err
	}
	if err := o.setAll(given); err != nil {
		return Options{}, err
	}
	if o.Restore != "" {
		if _, ok := given[optMode]; ok && o.Mode != ModeKeep {
			return Options{}, newOptionError(optMode, string(o.Mode), "can't be with a restore", string(ModeKeep))
		}
		o.Mode = ModeKeep
	}
	return o, nil
}

// parseDefaults returns the Options of a volume that gives nothing but a repo, without the
// repo.
func parseDefaults(defaults map[string]string) (Options, error) {
	for _, name := range []string{optRepo, optURL, optRestore} {
		if _, ok := defaults[name]; ok {
			return Options{}, newOptionError(name, "", "can't have a default", "")
		}
	}
	if err := checkNames(defaults); err != nil {
		return Options{}, err
	}
	o := Options{Subject: DefaultSubject, Mode: ModePrivate, Cache: CacheShared}
	return o, o.setAll(defaults)
}

func (o *Options) setAll(values map[string]string) error {
	for _, opt := range options {
		if text, ok := values[opt.name]; ok {
			if err := opt.set(o, text); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkNames refuses unknown names. Its error does not show their values, because they may be secret.
func checkNames(values map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if name == optRepo || name == optURL || slices.ContainsFunc(options, func(opt option) bool { return opt.name == name }) {
			continue
		}
		known := []string{optRepo + " (or " + optURL + ")"}
		for _, opt := range options {
			known = append(known, opt.name)
		}
		return newOptionError(name, "", "unknown option", strings.Join(known, ", "))
	}
	return nil
}

// parseRepo reads repo or url. An error has the name that the user chose.
func parseRepo(given map[string]string, schemes Schemes) (URL, error) {
	var found URL
	for _, name := range []string{optRepo, optURL} {
		text, ok := given[name]
		if !ok {
			continue
		}
		u, err := ParseURL(text, schemes)
		if err != nil {
			if bad, ok := err.(*OptionError); ok {
				bad.Option = name
			}
			return URL{}, err
		}
		if found != (URL{}) && found != u {
			return URL{}, newOptionError(name, u.String(), fmt.Sprintf("differs from the repo %q that is also given", shown(found.String())), "one of them")
		}
		found = u
	}
	if found == (URL{}) {
		return URL{}, newOptionError(optRepo, "", "missing", schemes.allowed())
	}
	return found, nil
}

// parseWord accepts one of a few words.
func parseWord[T ~string](name, text string, allowed ...T) (T, error) {
	if slices.Contains(allowed, T(text)) {
		return T(text), nil
	}
	words := make([]string, len(allowed))
	for i, word := range allowed {
		words[i] = string(word)
	}
	problem := "is not supported"
	if text == "" {
		problem = "empty value"
	}
	return "", newOptionError(name, text, problem, strings.Join(words, ", "))
}

// parseFlag accepts the words for a flag that is not set and for one that is.
func parseFlag(name, text, unset, set string) (bool, error) {
	word, err := parseWord(name, text, unset, set)
	return word == set, err
}

func formatFlag(flag bool, unset, set string) string {
	if flag {
		return set
	}
	return unset
}

// parseID reads a user or group number. 4294967295 is not one: chown takes it for "leave as it
// is".
func parseID(name, text string) (uint32, error) {
	const none = 1<<32 - 1
	n, err := strconv.ParseUint(text, 10, 32)
	if err == nil && n != none {
		return uint32(n), nil
	}
	problem := "is not a valid number"
	if text == "" {
		problem = "empty value"
	}
	return 0, newOptionError(name, text, problem, "a number from 0 to 4294967294")
}

func formatID(id uint32) string { return strconv.FormatUint(uint64(id), 10) }

// Map returns every option by name in its canonical form, as it is stored and shown to the user. It has no secrets,
// and Parse returns o for it, whatever the defaults.
func (o Options) Map() map[string]string {
	m := map[string]string{optRepo: o.Repo.String()}
	for _, opt := range options {
		m[opt.name] = opt.get(o)
	}
	return m
}

// Diff lists the differences between o, which exists, and p, which was requested, as text: ref: "main" here, "dev"
// given. Two spellings of one repository are not a difference.
func (o Options) Diff(p Options) []string {
	var list []string
	add := func(name, here, given string) {
		list = append(list, fmt.Sprintf("%s: %q here, %q given", name, here, given))
	}
	if o.Repo.Normalized() != p.Repo.Normalized() {
		add(optRepo, o.Repo.String(), p.Repo.String())
	}
	for _, opt := range options {
		if here, given := opt.get(o), opt.get(p); here != given {
			add(opt.name, here, given)
		}
	}
	return list
}
