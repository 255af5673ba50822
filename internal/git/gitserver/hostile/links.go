package hostile

import (
	"fmt"
	"strings"
)

// linkCases are symlinks, and tracked files at the place of the cache.
func linkCases() []Case {
	to := func(target func(Bait) string) func(*repo, Bait) {
		return func(r *repo, b Bait) { r.files(entry{mode: link, name: "link", content: target(b)}) }
	}
	is := func(s string) func(Bait) string { return func(Bait) string { return s } }
	outside := func(b Bait) string { return b.Outside }
	secret := func(b Bait) string { return b.Outside + "/secret" }
	cache := func(e entry) func(*repo, Bait) {
		return func(r *repo, _ Bait) { r.files(e) }
	}
	cases := []Case{
		{Name: "link-absolute", Abuses: "a symlink to a file outside, for programs that read the tree from the host", Effect: Reads, Control: plain + `; cat w/link`, build: to(secret)},
		{Name: "link-directory", Abuses: "a symlink to a directory outside, for programs that write into the tree from the host",
			Effect: Writes, Control: plain + `; echo x >w/link/new`, build: to(outside)},
		{Name: "link-up", Abuses: "a symlink that climbs out", Effect: Reads, Control: plain + `; cat w/link`, build: to(func(b Bait) string {
			return strings.Repeat("../", 40) + strings.TrimPrefix(b.Outside, "/") + "/secret"
		})},
		{Name: "link-self", Abuses: "a symlink to itself", build: to(is("link"))},
		{Name: "link-proc", Abuses: "a symlink to the environment of the process that follows it", build: to(is("/proc/self/environ"))},
		{Name: "link-device", Abuses: "a symlink to an endless file", build: to(is("/dev/zero"))},
		{Name: "link-long", Abuses: "a symlink whose target is longer than any path", Effect: Fails, Control: plain, build: to(is(strings.Repeat("a/", 4000)))},
		{Name: "link-empty", Abuses: "a symlink to nothing", Effect: Fails, Control: plain, build: to(is(""))},
		{Name: "link-newline", Abuses: "a symlink whose target has newlines and control characters", build: to(is("a\nb\x1b[2J\r"))},
		{Name: "link-nul", Abuses: "a symlink whose target has a NUL", build: to(is("a\x00/etc/passwd"))},
		{Name: "link-git", Abuses: "a symlink into .git", build: to(is(".git/hooks"))},
		{Name: "link-then-file", Abuses: "a name that is a symlink to outside and a directory: the file in it goes through the link", CVE: "CVE-2021-21300",
			build: func(r *repo, b Bait) {
				below := r.tree(entry{mode: file, name: "new", content: "new\n"})
				r.commit(r.raw(entry{mode: link, name: "a", content: b.Outside}, entry{mode: tree, name: "a", id: below}))
			}},
		{Name: "link-then-hook", Abuses: "the same into .git/hooks", CVE: "CVE-2021-21300", build: func(r *repo, b Bait) {
			below := r.tree(entry{mode: script, name: "post-checkout", content: hook(b)})
			r.commit(r.raw(entry{mode: link, name: "a", content: ".git/hooks"}, entry{mode: tree, name: "a", id: below}))
		}},
		{Name: "link-case", Abuses: "the same where case does not count", CVE: "CVE-2021-21300", build: func(r *repo, b Bait) {
			r.files(entry{mode: script, name: "A/post-checkout", content: hook(b)}, entry{mode: link, name: "a", content: ".git/hooks"})
		}},
		{Name: "link-replaces-directory", Abuses: "a directory of the first commit is a symlink to outside in the next: an update that removes its files removes others'",
			build: func(r *repo, b Bait) {
				r.files(entry{mode: file, name: "a/secret", content: "mine\n"})
				r.files(entry{mode: link, name: "a", content: b.Outside})
			}},
		{Name: "link-many", Abuses: "ten thousand symlinks", build: func(r *repo, b Bait) {
			target := r.blob(b.Outside)
			entries := make([]entry, 10_000)
			for i := range entries {
				entries[i] = entry{mode: link, name: fmt.Sprintf("links/%05d", i), id: target}
			}
			r.files(entries...)
		}},
		{Name: "hdcache-file", Abuses: "a tracked .hdcache, a file", build: cache(entry{mode: file, name: ".hdcache", content: "mine\n"})},
		{Name: "hdcache-directory", Abuses: "a tracked .hdcache, a directory with an env of its own", build: cache(entry{mode: file, name: ".hdcache/env", content: "id\n"})},
		{Name: "hdcache-etc", Abuses: "a tracked .hdcache, a symlink to /etc", build: cache(entry{mode: link, name: ".hdcache", content: "/etc"})},
		{Name: "hdcache-link", Abuses: "a tracked .hdcache, a symlink to outside: the caches are made there",
			Effect: Writes, Control: plain + `; mkdir -p w/.hdcache/go-mod`, build: func(r *repo, b Bait) {
				r.files(entry{mode: link, name: ".hdcache", content: b.Outside})
			}},
		{Name: "hdcache-gitlink", Abuses: "a tracked .hdcache, a submodule", build: cache(entry{mode: gitl, name: ".hdcache", content: nowhere})},
		{Name: "hdcache-case", Abuses: "a tracked .HDCACHE, a symlink to /etc", build: cache(entry{mode: link, name: ".HDCACHE", content: "/etc"})},
	}
	for _, name := range []string{".gitmodules", ".gitattributes", ".gitignore", ".mailmap", ".lfsconfig"} {
		cases = append(cases, Case{Name: "link-" + name[1:], Abuses: name + " is a symlink to outside", build: func(r *repo, b Bait) {
			r.files(entry{mode: link, name: name, content: b.Outside + "/secret"}, entry{mode: file, name: "a", content: "a\n"})
		}})
	}
	for i := range cases {
		cases[i].Need = Checkout
	}
	return cases
}
