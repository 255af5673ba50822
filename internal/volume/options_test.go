package volume

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

const repo = "https://h/o/r.git"

// with returns options of a Create: the repo and pairs of names and values.
func with(pairs ...string) map[string]string {
	m := map[string]string{"repo": repo}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	return m
}

func TestParse(t *testing.T) {
	u, err := ParseURL(repo, Schemes{})
	if err != nil {
		t.Fatal(err)
	}
	dev, err := ParseRef("dev")
	if err != nil {
		t.Fatal(err)
	}
	plain := Options{Repo: u, Subject: DefaultSubject, Mode: ModePrivate, Cache: CacheShared, Publish: PublishAlways, Auth: AuthNone}
	but := func(change func(*Options)) Options {
		o := plain
		change(&o)
		return o
	}
	for _, tt := range []struct {
		name            string
		given, defaults map[string]string
		want            Options
	}{
		{"only a repo", with(), nil, plain},
		{"url", map[string]string{"url": repo}, nil, plain},
		{"repo and the same url", with("url", "HTTPS://H/o/r.git/"), nil, plain},
		{"all at their defaults", with("ref", "HEAD", "subject", "default", "mode", "private", "cache", "shared", "uid", "0", "gid", "0", "refresh", "auto"), nil, plain},
		{"all", with("ref", "dev", "subject", "a/b", "cache", "off", "uid", "1000", "gid", "4294967294", "refresh", "90s"), nil,
			Options{Repo: u, Ref: dev, Subject: "a/b", Mode: ModePrivate, Cache: CacheOff, Publish: PublishAlways, UID: 1000, GID: 4294967294, Refresh: Refresh{Interval: 90 * time.Second}, Auth: AuthNone}},
		{"gid does not follow uid", with("uid", "1000"), nil, but(func(o *Options) { o.UID = 1000 })},
		{"never", with("refresh", "never"), nil, but(func(o *Options) { o.Refresh.Never = true })},
		{"always", with("refresh", "always"), nil, but(func(o *Options) { o.Refresh.Always = true })},
		{"0s is always", with("refresh", "0s"), nil, but(func(o *Options) { o.Refresh.Always = true })},
		{"default", with(), with0("ref", "dev", "uid", "7"), but(func(o *Options) { o.Ref, o.UID = dev, 7 })},
		{"given wins", with("ref", "dev", "uid", "8"), with0("ref", "main", "uid", "7"), but(func(o *Options) { o.Ref, o.UID = dev, 8 })},
		{"empty ref", with("ref", ""), nil, plain},
		{"shared", with("mode", "shared"), nil, but(func(o *Options) { o.Mode = ModeShared })},
		{"keep", with("mode", "keep", "from", ""), nil, but(func(o *Options) { o.Mode = ModeKeep })},
		{"from", with("from", "0123456789abcdef"), nil, but(func(o *Options) { o.From = "0123456789abcdef" })},
		{"empty ref over a default", with("ref", ""), with0("ref", "main"), plain},
		{"auth", with("auth", "container"), nil, but(func(o *Options) { o.Auth = AuthContainer })},
		{"auth by default", with(), with0("auth", "container"), but(func(o *Options) { o.Auth = AuthContainer })},
		{"a link", with("cache_link", "true"), nil, but(func(o *Options) { o.CacheLink = true })},
		{"a link by default", with(), with0("cache_link", "true"), but(func(o *Options) { o.CacheLink = true })},
		{"no link, whatever the default", with("cache_link", "false"), with0("cache_link", "true"), plain},
		{"warm files", with("warm_files", "web/.nvmrc,package-lock.json", "warm_exact", "true"), nil, but(func(o *Options) { o.WarmFiles, o.WarmExact = "package-lock.json,web/.nvmrc", true })},
		{"no warm files, whatever the default", with("warm_files", ""), with0("warm_files", "go.sum"), plain},
		{"publish", with("publish", "never"), nil, but(func(o *Options) { o.Publish = PublishNever })},
		{"publish by default", with(), with0("publish", "marked"), but(func(o *Options) { o.Publish = PublishMarked })},
		{"publish, whatever the default", with("publish", "always"), with0("publish", "never"), plain},
		{"cold", with("cold", "shallow"), nil, but(func(o *Options) { o.ColdShallow = true })},
		{"cold by default", with(), with0("cold", "shallow"), but(func(o *Options) { o.ColdShallow = true })},
		{"submodules", with("submodules", "recursive", "submodule_errors", "warn"), nil, but(func(o *Options) { o.Files.Submodules.Levels, o.Files.PartialSubmodules = AllLevels, true })},
		{"some submodules", with("submodules", "true,libs/*,!libs/big/,a,libs/*"), nil, but(func(o *Options) { o.Files.Submodules = Submodules{TopLevel, "!libs/big,a,libs/*"} })},
		{"a user", with("repo", "https://jane%40h@h/o/r.git"), nil, but(func(o *Options) { o.Repo.user = "jane%40h" })},
		{"limits", with("size", "2G", "inodes", "100000"), nil, but(func(o *Options) { o.Size, o.Inodes = 2<<30, 100_000 })},
		{"a limit in other words", with("size", "1.5GiB"), nil, but(func(o *Options) { o.Size = 1536 << 20 })},
		{"a limit in bytes", with("size", "1048577b"), nil, but(func(o *Options) { o.Size = 1<<20 + 1 })},
		{"limits from unset variables", with("size", "", "inodes", ""), nil, plain},
		{"cold by default, where it can't be", with("mode", "keep", "depth", "2"), with0("cold", "shallow"), but(func(o *Options) { o.Mode, o.History.Depth = ModeKeep, 2 })},
	} {
		got, err := Parse(tt.given, tt.defaults, Schemes{})
		if err != nil || got != tt.want {
			t.Errorf("%s: got %+v, %v; want %+v", tt.name, got, err, tt.want)
		}
		again, err := Parse(got.Map(), with0("ref", "other", "subject", "other", "cache", "off", "uid", "5", "gid", "5", "refresh", "5s"), Schemes{})
		if err != nil || again != got {
			t.Errorf("%s: Parse of its Map: %+v, %v; want %+v", tt.name, again, err, got)
		}
	}
}

// with0 is like with, but without the repo.
func with0(pairs ...string) map[string]string {
	m := with(pairs...)
	delete(m, "repo")
	return m
}

func TestParseRefuses(t *testing.T) {
	const options = "; allowed: repo (or url), ref, subject, mode, cache, cache_link, publish, warm, warm_key, warm_files, warm_exact, uid, gid, refresh, stale_if_error, depth, filter, cold, sparse, submodules, submodule_errors, lfs, credential, auth, from, size, inodes"
	const ids = "; allowed: a number from 0 to 4294967294"
	for _, tt := range []struct {
		given, defaults map[string]string
		want            string
	}{
		{nil, nil, `option "repo": missing; allowed: a URL such as https://host/path, its scheme one of https, http`},
		{with0("ref", "main"), nil, `option "repo": missing; allowed: a URL such as https://host/path, its scheme one of https, http`},
		{with("depht", "1"), nil, `option "depht": unknown option` + options},
		{with("z", "secret", "a", "secret"), nil, `option "a": unknown option` + options},
		{with("Ref", "main"), nil, `option "Ref": unknown option` + options},
		{with("", "x"), nil, `option "": unknown option` + options},
		{map[string]string{"https://user:secret@h/x": ""}, nil, `option "https://***@h/x": unknown option` + options},
		{with("repo", ""), nil, `option "repo": empty value; allowed: a URL such as https://host/path, its scheme one of https, http`},
		{map[string]string{"url": "/etc"}, nil, `option "url": "/etc" is not a URL; allowed: a URL such as https://host/path, its scheme one of https, http`},
		{with("repo", "https://user:secret@h/x"), nil, `option "repo": "https://***@h/x" contains a password or token: store a credential for the URL instead, and leave it out here; allowed: a URL such as https://host/path, its scheme one of https, http`},
		{with("url", "https://h/x"), nil, `option "url": "https://h/x" differs from the repo "https://h/o/r.git" that is also given; allowed: one of them`},
		{with("ref", "a b"), nil, `option "ref": "a b" contains ' '; allowed: a branch, a tag, a full ref such as refs/pull/7/head, a SHA, HEAD`},
		{with("subject", ""), nil, `option "subject": empty value; allowed: 1 to 256 bytes of UTF-8 text without NUL`},
		{with("subject", strings.Repeat("x", 300)), nil, `option "subject": "` + strings.Repeat("x", 200) + `..." is longer than 256 bytes; allowed: 1 to 256 bytes of UTF-8 text without NUL`},
		{with("subject", "x"+strings.Repeat("ü", 150)), nil, `option "subject": "x` + strings.Repeat("ü", 99) + `..." is longer than 256 bytes; allowed: 1 to 256 bytes of UTF-8 text without NUL`},
		{with("mode", "kept"), nil, `option "mode": "kept" is not supported; allowed: private, shared, keep`},
		{with("mode", ""), nil, `option "mode": empty value; allowed: private, shared, keep`},
		{with("from", "0123456789abcdeF"), nil, `option "from": "0123456789abcdeF" is not the ID of a checkpoint; allowed: 16 hex digits, as docker repos checkpoints ls lists them`},
		{with("auth", "yes"), nil, `option "auth": "yes" is not supported; allowed: none, container`},
		{with("auth", ""), nil, `option "auth": empty value; allowed: none, container`},
		{with("cache_link", "no"), nil, `option "cache_link": "no" is not supported; allowed: false, true`},
		{with("cache_link", ""), nil, `option "cache_link": empty value; allowed: false, true`},
		{with("warm_files", ".git/HEAD"), nil, `option "warm_files": ".git/HEAD" names .git, which is not part of the work tree; allowed: ` + allowedWarmFiles},
		{with("warm_exact", "yes"), nil, `option "warm_exact": "yes" is not supported; allowed: false, true`},
		{with("publish", "readonly"), nil, `option "publish": "readonly" is not supported; allowed: always, marked, never`},
		{with("publish", ""), nil, `option "publish": empty value; allowed: always, marked, never`},
		{with("cold", "warm"), nil, `option "cold": "warm" is not supported; allowed: full, shallow`},
		{with("cold", ""), nil, `option "cold": empty value; allowed: full, shallow`},
		{with("cold", "shallow", "mode", "keep"), nil, `option "cold": "shallow" can't be with mode=keep, whose workspace would stay shallow; allowed: full`},
		{with("cold", "shallow"), with0("mode", "shared"), `option "cold": "shallow" can't be with mode=shared, whose workspace would stay shallow; allowed: full`},
		{with("cold", "shallow", "depth", "3"), nil, `option "cold": "shallow" can't be with a depth, which shortens the history already; allowed: full`},
		{with("cold", "shallow", "filter", "blob:none"), nil, `option "cold": "shallow" can't be with a filter, which makes the first fetch short already; allowed: full`},
		{with("submodules", "libs"), nil, `option "submodules": "libs" is not supported; allowed: ` + allowedSubmodules},
		{with("submodules", "false,libs"), nil, `option "submodules": "false,libs" names paths, but no submodule is checked out; allowed: ` + allowedSubmodules},
		{with("submodules", "true,"), nil, `option "submodules": "true," names an empty directory; allowed: ` + allowedSubmodules},
		{with("submodules", "true,!"), nil, `option "submodules": "true,!" names an empty directory; allowed: ` + allowedSubmodules},
		{with("submodules", "true,../x"), nil, `option "submodules": "true,../x" names a path that is not below the top of the repository; allowed: ` + allowedSubmodules},
		{with("submodules", "true,[a"), nil, `option "submodules": "true,[a" has a pattern that is none: * and ? match within a name, and [abc] one character; allowed: ` + allowedSubmodules},
		{with("submodule_errors", "ignore"), nil, `option "submodule_errors": "ignore" is not supported; allowed: fail, warn`},
		{with("size", "0"), nil, `option "size": "0" is too small; allowed: a size of at least 1m, such as 2g, with k, m, g or t`},
		{with("size", "1023k"), nil, `option "size": "1023k" is too small; allowed: a size of at least 1m, such as 2g, with k, m, g or t`},
		{with("size", "2"), nil, `option "size": "2" is not a size; allowed: a size of at least 1m, such as 2g, with k, m, g or t`},
		{with("size", "2gb"), nil, `option "size": "2gb" is not a size; allowed: a size of at least 1m, such as 2g, with k, m, g or t`},
		{with("size", "-2g"), nil, `option "size": "-2g" is not a size; allowed: a size of at least 1m, such as 2g, with k, m, g or t`},
		{with("size", "99999999t"), nil, `option "size": "99999999t" is not a size; allowed: a size of at least 1m, such as 2g, with k, m, g or t`},
		{with("size", "NaNg"), nil, `option "size": "NaNg" is not a size; allowed: a size of at least 1m, such as 2g, with k, m, g or t`},
		{with("inodes", "0"), nil, `option "inodes": "0" is too small; allowed: a number of at least 100`},
		{with("inodes", "99"), nil, `option "inodes": "99" is too small; allowed: a number of at least 100`},
		{with("inodes", "10k"), nil, `option "inodes": "10k" is not a valid number; allowed: a number of at least 100`},
		{with("inodes", "-5"), nil, `option "inodes": "-5" is not a valid number; allowed: a number of at least 100`},
		{with(), with0("from", "0123456789abcdef"), `option "from": can't have a default`},
		{with("cache", "none"), nil, `option "cache": "none" is not supported; allowed: shared, off`},
		{with("cache", "Off"), nil, `option "cache": "Off" is not supported; allowed: shared, off`},
		{with("uid", "root"), nil, `option "uid": "root" is not a valid number` + ids},
		{with("uid", "-1"), nil, `option "uid": "-1" is not a valid number` + ids},
		{with("uid", ""), nil, `option "uid": empty value` + ids},
		{with("gid", "4294967295"), nil, `option "gid": "4294967295" is not a valid number` + ids},
		{with("gid", "4294967296"), nil, `option "gid": "4294967296" is not a valid number` + ids},
		{with("refresh", "soon"), nil, `option "refresh": "soon" is not a duration; allowed: auto, always, never, a duration such as 30s`},
		{with("refresh", "30"), nil, `option "refresh": "30" is not a duration; allowed: auto, always, never, a duration such as 30s`},
		{with("refresh", "-1s"), nil, `option "refresh": "-1s" is negative; allowed: auto, always, never, a duration such as 30s`},
		{with("refresh", ""), nil, `option "refresh": empty value; allowed: auto, always, never, a duration such as 30s`},
		{with(), with("ref", "main"), `option "repo": can't have a default`},
		{with(), with0("colour", "red"), `option "colour": unknown option` + options},
		{with(), with0("uid", "x"), `option "uid": "x" is not a valid number` + ids},
	} {
		o, err := Parse(tt.given, tt.defaults, Schemes{})
		if bad, ok := errors.AsType[*OptionError](err); !ok || bad.Error() != tt.want || o != (Options{}) {
			t.Errorf("Parse(%q, %q) = %+v\n got %v\nwant %s", tt.given, tt.defaults, o, err, tt.want)
		}
	}
}

// The versions before cold, auth and cache_link refuse records with them, so only a volume that uses one has it.
func TestMap(t *testing.T) {
	o, err := Parse(map[string]string{"url": "HTTPS://H/o/r.git/", "refresh": "5m", "ref": "ABCDEFABCDEFABCDEFABCDEFABCDEFABCDEFABCD"}, nil, Schemes{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"repo": repo, "ref": "abcdefabcdefabcdefabcdefabcdefabcdefabcd", "subject": "default", "mode": "private",
		"cache": "shared", "warm": "", "warm_key": "", "uid": "0", "gid": "0", "refresh": "5m0s", "stale_if_error": "0s", "depth": "full", "filter": "none",
		"sparse": "", "submodules": "false", "lfs": "true", "credential": "", "from": "",
	}
	if got := o.Map(); !maps.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestDiff(t *testing.T) {
	for _, tt := range []struct {
		here, given map[string]string
		want        []string
	}{
		{with(), with(), nil},
		{with(), with("repo", "https://H:443/o/r/"), nil},
		{with("ref", "main"), with("ref", "dev"), []string{`ref: "main" here, "dev" given`}},
		{with("ref", "HEAD"), with(), nil},
		{with("refresh", "always"), with(), nil}, // a volume from when always was the default
		{with("cold", "full"), with(), nil},
		{with("auth", "none"), with(), nil},
		{with(), with("auth", "container"), []string{`auth: "none" here, "container" given`}},
		{with(), with("repo", "https://jane@h/o/r.git"), nil},
		{with(), with("submodule_errors", "warn"), []string{`submodule_errors: "fail" here, "warn" given`}},
		{with("cache_link", "false"), with(), nil},
		{with(), with("cache_link", "true"), []string{`cache_link: "false" here, "true" given`}},
		{with(), with("cold", "shallow"), []string{`cold: "full" here, "shallow" given`}},
		{with(), with("refresh", "always"), []string{`refresh: "auto" here, "always" given`}},
		{with(), with("repo", "https://h/x", "ref", "dev", "subject", "a\n", "cache", "off", "uid", "1", "gid", "2", "refresh", "never"), []string{
			`repo: "https://h/o/r.git" here, "https://h/x" given`,
			`ref: "HEAD" here, "dev" given`,
			`subject: "default" here, "a\n" given`,
			`cache: "shared" here, "off" given`,
			`uid: "0" here, "1" given`,
			`gid: "0" here, "2" given`,
			`refresh: "auto" here, "never" given`,
		}},
	} {
		o, err := Parse(tt.here, nil, Schemes{})
		if err != nil {
			t.Fatal(err)
		}
		p, err := Parse(tt.given, nil, Schemes{})
		if err != nil {
			t.Fatal(err)
		}
		if got := o.Diff(p); !slices.Equal(got, tt.want) {
			t.Errorf("Diff(%q, %q)\n got %q\nwant %q", tt.here, tt.given, got, tt.want)
		}
	}
}

func FuzzParseOptions(f *testing.F) {
	f.Add("repo", repo, "main")
	f.Add("url", "git@h:o/r.git", "")
	f.Add("subject", "a/b\n", "refs/pull/7/head")
	f.Add("mode", "shared", "HEAD")
	f.Add("cache", "off", "v1")
	f.Add("warm", "node_modules,a/../b", "v1")
	f.Add("uid", "4294967295", "abcdef0")
	f.Add("gid", "007", "a..b")
	f.Add("refresh", "1h", "größe")
	f.Add("cold", "shallow", "HEAD")
	f.Add("refresh", "0.5ns", "-x")
	f.Add("https://user:pw@h/x", "", "main")
	f.Fuzz(func(t *testing.T, name, value, ref string) {
		const secret = "9f86d081884c7d65"
		hidden := "https://user:" + secret + "@" + value
		for _, given := range []map[string]string{with("url", hidden), with(name, hidden), with(hidden, value), {"repo": hidden, "ref": ref}, with("ref", hidden)} {
			if _, err := Parse(given, nil, AllSchemes()); err != nil && strings.Contains(err.Error(), secret) {
				t.Errorf("Parse(%q) repeats the secret: %v", given, err)
			}
		}
		given := with("ref", ref)
		if name == "url" {
			delete(given, "repo")
		}
		given[name] = value
		o, err := Parse(given, nil, AllSchemes())
		if err != nil {
			if _, ok := errors.AsType[*OptionError](err); !ok || o != (Options{}) {
				t.Errorf("Parse(%q) = %+v, %v", given, o, err)
			}
			return
		}
		again, err := Parse(o.Map(), with0("ref", "other", "subject", "other", "cache", "off", "uid", "5", "gid", "5", "refresh", "5s"), AllSchemes())
		if err != nil || again != o {
			t.Errorf("Parse(%q) = %+v, and of its Map %+v, %v", given, o, again, err)
		}
		if diff := o.Diff(again); diff != nil {
			t.Errorf("Parse(%q) differs from itself: %q", given, diff)
		}
	})
}
