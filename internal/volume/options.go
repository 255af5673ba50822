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

// Options are the options of one volume.
type Options struct {
	Repo         URL
	Ref          Ref
	Subject      Subject
	Mode         Mode
	Cache        Cache
	Publish      Publish
	CacheLink    bool // the top of the work tree has a link to the cache
	Warm         Warm
	WarmKey      string // separates warm state that must not mix; may be empty
	WarmFiles    Warm   // each content of these files has a warm state of its own
	WarmExact    bool   // a workspace never begins with the warm state of other contents
	UID          uint32 // owner of the files, never 4294967295
	GID          uint32 // not derived from UID
	Refresh      Refresh
	StaleIfError time.Duration // how old its last answer may be to be used when the remote does not answer; 0: never
	History      History
	ColdShallow  bool // a Mount need not wait for the first fetch: it may get the newest commits alone
	Files        Files
	Credential   string // the name of a stored credential; empty: the one whose scope fits best
	Auth         Auth
	From         string // the ID of the checkpoint that its workspaces begin with; empty: none
	Size         int64  // the most bytes that a workspace may hold; 0: as the settings say
	Inodes       int64  // likewise, of files and directories
}

const (
	optRepo    = "repo"
	optURL     = "url" // another spelling of repo
	optRef     = "ref"
	optSubject = "subject"
	optMode    = "mode"
	optCache   = "cache"
	optPublish = "publish"
	optLink    = "cache_link"
	optWarm    = "warm"
	optWarmKey = "warm_key"

	optWarmFiles = "warm_files"
	optWarmExact = "warm_exact"

	optUID     = "uid"
	optGID     = "gid"
	optRefresh = "refresh"

	optStaleIfError = "stale_if_error"
	optDepth        = "depth"
	optFilter       = "filter"
	optCold         = "cold"
	optSparse       = "sparse"
	optSubmodules   = "submodules"
	optModuleErrors = "submodule_errors"
	optLFS          = "lfs"
	optCredential   = "credential"
	optAuth         = "auth"
	optFrom         = "from"
	optSize         = "size"
	optInodes       = "inodes"
)

// option sets and gets one field of Options by name.
type option struct {
	name    string
	allowed string // for errors
	set     func(o *Options, text string) (problem string)
	get     func(o *Options) string
}

// options has all options in the order in which they are checked and shown, except repo, which needs the schemes
// and has two names.
var options = []option{
	field(optRef, allowedRef, func(o *Options) *Ref { return &o.Ref }, parseRef, Ref.String),
	field(optSubject, allowedSubject, func(o *Options) *Subject { return &o.Subject }, parseSubject, asText),
	words(optMode, func(o *Options) *Mode { return &o.Mode }, ModePrivate, ModeShared, ModeKeep),
	words(optCache, func(o *Options) *Cache { return &o.Cache }, CacheShared, CacheOff),
	flag(optLink, func(o *Options) *bool { return &o.CacheLink }, "false", "true"),
	words(optPublish, func(o *Options) *Publish { return &o.Publish }, PublishAlways, PublishMarked, PublishNever),
	field(optWarm, allowedWarm, func(o *Options) *Warm { return &o.Warm }, parseWarm, asText),
	field(optWarmKey, allowedWarmKey, func(o *Options) *string { return &o.WarmKey }, parseWarmKey, asText),
	field(optWarmFiles, allowedWarmFiles, func(o *Options) *Warm { return &o.WarmFiles }, parseWarm, asText),
	flag(optWarmExact, func(o *Options) *bool { return &o.WarmExact }, "false", "true"),
	field(optUID, allowedID, func(o *Options) *uint32 { return &o.UID }, parseID, formatID),
	field(optGID, allowedID, func(o *Options) *uint32 { return &o.GID }, parseID, formatID),
	field(optRefresh, allowedRefresh, func(o *Options) *Refresh { return &o.Refresh }, parseRefresh, Refresh.String),
	field(optStaleIfError, allowedStale, func(o *Options) *time.Duration { return &o.StaleIfError }, parseDuration, time.Duration.String),
	field(optDepth, allowedDepth, func(o *Options) *int { return &o.History.Depth }, parseDepth, formatDepth),
	flag(optFilter, func(o *Options) *bool { return &o.History.NoBlobs }, "none", "blob:none"),
	flag(optCold, func(o *Options) *bool { return &o.ColdShallow }, "full", "shallow"),
	field(optSparse, allowedSparse, func(o *Options) *Sparse { return &o.Files.Sparse }, parseSparse, asText),
	field(optSubmodules, allowedSubmodules, func(o *Options) *Submodules { return &o.Files.Submodules }, parseSubmodules, Submodules.String),
	flag(optModuleErrors, func(o *Options) *bool { return &o.Files.PartialSubmodules }, "fail", "warn"),
	flag(optLFS, func(o *Options) *bool { return &o.Files.NoLFS }, "true", "false"),
	field(optCredential, allowedCredential, func(o *Options) *string { return &o.Credential }, parseCredential, asText),
	words(optAuth, func(o *Options) *Auth { return &o.Auth }, AuthNone, AuthContainer),
	field(optFrom, allowedFrom, func(o *Options) *string { return &o.From }, parseFrom, asText),
	field(optSize, allowedSize, func(o *Options) *int64 { return &o.Size }, ParseLimit, FormatSize),
	field(optInodes, allowedInodes, func(o *Options) *int64 { return &o.Inodes }, ParseInodes, formatInodes),
}

// field returns the option for the field that at points to. parse returns a problem if the text is no value of it.
func field[T any](name, allowed string, at func(*Options) *T, parse func(text string) (T, string), format func(T) string) option {
	return option{
		name: name, allowed: allowed,
		set: func(o *Options, text string) (problem string) {
			if *at(o), problem = parse(text); problem != "" && text == "" {
				return emptyValue
			}
			return problem
		},
		get: func(o *Options) string { return format(*at(o)) },
	}
}

// words returns an option whose values are a few words.
func words[T ~string](name string, at func(*Options) *T, values ...T) option {
	allowed := make([]string, len(values))
	for i, value := range values {
		allowed[i] = string(value)
	}
	return field(name, strings.Join(allowed, ", "), at, func(text string) (T, string) {
		_, problem := indexOf(text, allowed)
		return T(text), problem
	}, asText)
}

// flag returns an option with a word for a flag that is not set and one for a flag that is.
func flag(name string, at func(*Options) *bool, unset, set string) option {
	return field(name, unset+", "+set, at, func(text string) (bool, string) {
		i, problem := indexOf(text, []string{unset, set})
		return i == 1, problem
	}, func(flag bool) string {
		if flag {
			return set
		}
		return unset
	})
}

func indexOf(text string, allowed []string) (i int, problem string) {
	if i = slices.Index(allowed, text); i < 0 {
		return 0, "is not supported"
	}
	return i, ""
}

func asText[T ~string](value T) string { return string(value) }

// Parse reads the options of one Create. Those given override defaults (ParseDefaults), which override the built-in
// ones: the remote's HEAD, subject default, mode private, cache shared without a link, publish always, uid and gid 0,
// refresh auto, stale_if_error 0s, the full history, also at first, and all files, lfs, no submodules, whose errors
// fail, the credential whose scope fits, auth none, no limits.
//
// It is strict: an unknown name, in given or in defaults, is an error, as is a missing repo, or a url that differs from
// repo. An empty value is an error too, except for ref, warm, warm_key, warm_files, sparse, credential, from, size
// and inodes, where it means none, whatever the default: compose passes one for an unset variable. With a mode, a depth
// or a filter that excludes it, cold=shallow is an error if it is given, and full if it is a default; so is
// auth=container, or none, with a URL that is neither https nor http. Every error is an *OptionError.
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
	if problem := o.coldProblem(); problem != "" {
		if _, ok := given[optCold]; ok {
			return Options{}, refuse(optCold, "shallow", problem, "full")
		}
		o.ColdShallow = false // a default is for the volumes that can have it
	}
	if problem := o.authProblem(); problem != "" {
		if _, ok := given[optAuth]; ok {
			return Options{}, refuse(optAuth, string(AuthContainer), problem, string(AuthNone))
		}
		o.Auth = AuthNone
	}
	return o, nil
}

// coldProblem returns why the volume can't have cold=shallow, or "" if it can.
func (o *Options) coldProblem() (problem string) {
	switch {
	case !o.ColdShallow:
		return ""
	case o.Mode != ModePrivate:
		// The next Mounts get the same workspace, not one with the full history.
		return "can't be with mode=" + string(o.Mode) + ", whose workspace would stay shallow"
	case o.History.Depth > 0:
		return "can't be with a depth, which shortens the history already"
	case o.History.NoBlobs:
		return "can't be with a filter, which makes the first fetch short already"
	}
	return ""
}

// ParseDefaults reads the setting DEFAULT_OPTS: name=value pairs separated by commas or newlines, such as
// "cache=off,refresh=30s". It drops space around names and values and ignores empty pairs; a value can't contain a
// comma or a newline. The result is for Parse.
//
// It checks names and values as Parse does. A default for repo, url or from, and a repeated name, are errors
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
			return nil, refuse(name, "", "has no value", "name=value")
		}
		if _, twice := defaults[name]; twice {
			return nil, refuse(name, "", "given twice", "")
		}
		defaults[name] = value
	}
	if _, err := parseDefaults(defaults); err != nil {
		return nil, err
	}
	return defaults, nil
}

// parseDefaults returns the Options of a volume that gives nothing but a repo, without the
// repo.
func parseDefaults(defaults map[string]string) (Options, error) {
	for _, name := range []string{optRepo, optURL, optFrom} {
		if _, ok := defaults[name]; ok {
			return Options{}, refuse(name, "", "can't have a default", "")
		}
	}
	if err := checkNames(defaults); err != nil {
		return Options{}, err
	}
	o := Options{Subject: DefaultSubject, Mode: ModePrivate, Cache: CacheShared, Publish: PublishAlways, Auth: AuthNone}
	err := o.setAll(defaults)
	return o, err
}

func (o *Options) setAll(values map[string]string) error {
	for _, opt := range options {
		if text, ok := values[opt.name]; ok {
			if err := refuse(opt.name, text, opt.set(o, text), opt.allowed); err != nil {
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
		return refuse(name, "", "unknown option", strings.Join(known, ", "))
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
		u, problem := parseURL(text, schemes)
		switch {
		case problem != "":
			return URL{}, refuse(name, text, problem, schemes.allowed())
		case found != (URL{}) && found != u:
			return URL{}, refuse(name, u.String(), fmt.Sprintf("differs from the repo %q that is also given", shown(found.String())), "one of them")
		}
		found = u
	}
	if found == (URL{}) {
		return URL{}, refuse(optRepo, "", "missing", schemes.allowed())
	}
	return found, nil
}

const allowedID = "a number from 0 to 4294967294"

// parseID reads a user or group number. 4294967295 is refused, because chown takes it for "leave
// as it is".
func parseID(text string) (id uint32, problem string) {
	const none = 1<<32 - 1
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil || n == none {
		return 0, "is not a valid number"
	}
	return uint32(n), ""
}

func formatID(id uint32) string { return strconv.FormatUint(uint64(id), 10) }

// younger has the options that the first version lacks, with their built-in defaults. The versions before an option
// refuse to start with a volume whose record has it, and a downgrade must work for those that do not use it.
var younger = map[string]string{
	optCold: "full", optModuleErrors: "fail", optLink: "false", optAuth: string(AuthNone), optPublish: string(PublishAlways),
	optWarmFiles: "", optWarmExact: "false", optSize: "", optInodes: "",
}

// Map returns every option by name in its canonical form, as it is stored and shown to the user, except younger ones at
// their built-in defaults. It has no secrets, and Parse returns o for it, whatever the defaults, unless they have another
// value of a younger one.
func (o Options) Map() map[string]string {
	m := map[string]string{optRepo: o.Repo.String()}
	for _, opt := range options {
		text := opt.get(&o)
		if unused, ok := younger[opt.name]; !ok || text != unused {
			m[opt.name] = text
		}
	}
	return m
}

// notOfCheckout lists the options that do not decide what a Mount finds checked out, besides the subject, which the
// clone has.
var notOfCheckout = []string{optSubject, optMode, optCache, optPublish, optWarm, optWarmKey, optWarmFiles, optWarmExact, optStaleIfError, optAuth, optFrom, optSize, optInodes}

// Checkout is Map for the options that decide what a Mount finds checked out, and how it is fetched: volumes with the
// same Checkout share trees and git layers. Parse takes the others from the defaults. How old an answer of the remote
// may be is not in it, unless it may have any age.
func (o Options) Checkout() map[string]string {
	m := o.Map()
	for _, name := range notOfCheckout {
		delete(m, name)
	}
	if !o.Refresh.Never {
		delete(m, optRefresh)
	}
	return m
}

// Diff lists the differences between o, which exists, and p, which was requested, as text: ref: "main" here, "dev"
// given. Two spellings of one repository are not a difference, and neither is refresh=always here where auto is given:
// it was the default, and does all that auto does.
func (o Options) Diff(p Options) []string {
	var list []string
	add := func(name, here, given string) {
		list = append(list, fmt.Sprintf("%s: %q here, %q given", name, here, given))
	}
	if o.Repo.Normalized() != p.Repo.Normalized() {
		add(optRepo, o.Repo.String(), p.Repo.String())
	}
	if o.Refresh.Always && p.Refresh == (Refresh{}) {
		p.Refresh = o.Refresh
	}
	for _, opt := range options {
		if here, given := opt.get(&o), opt.get(&p); here != given {
			add(opt.name, here, given)
		}
	}
	return list
}
