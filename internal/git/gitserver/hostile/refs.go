package hostile

import (
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"

	"github.com/helmdeck/repos/internal/git/gitserver"
)

// refCases are repositories with valid but hostile refs.
func refCases() []Case {
	// branch points HEAD to a branch of that name.
	branch := func(name string) func(*repo, Bait) {
		return func(r *repo, b Bait) {
			name := strings.ReplaceAll(name, "CANARY", b.Canary)
			id := r.files(entry{mode: file, name: "a", content: "a\n"})
			r.ref("refs/heads/"+name, id)
			r.write("HEAD", "ref: refs/heads/"+name+"\n")
		}
	}
	honest := func(r *repo, _ Bait) { r.files(entry{mode: file, name: "a", content: "a\n"}) }
	cases := []Case{
		{Name: "bundle-loopback", Abuses: "the server makes its clients fetch a bundle from loopback", build: honest,
			bundle: func(b Bait) string { return b.URL + "/bait" }},
		{Name: "bundle-file", Abuses: "the server makes its clients read a bundle from their disk", build: honest,
			bundle: func(b Bait) string { return "file://" + b.Outside + "/secret" }},
		{Name: "bundle-newline", Abuses: "a bundle's address with a newline tells the transport where to write", CVE: "CVE-2025-48385", build: honest,
			bundle: func(b Bait) string { return b.URL + "/bait\nget " + b.URL + "/bait " + b.Outside + "/new" }},
		{Name: "head-option", Abuses: "the default branch is an option", CVE: "CVE-2026-33748", build: branch("--upload-pack=x")},
		{Name: "head-shell", Abuses: "the default branch is a command for a shell", Effect: Runs,
			Control: plain + `; sh -c "git -C w branch --list $(git -C w symbolic-ref --short HEAD)"`, build: branch("$(touch${IFS}CANARY)")},
		{Name: "head-ref", Abuses: "the default branch is called HEAD", build: branch("HEAD")},
		{Name: "head-refs", Abuses: "the default branch is called like another one's full name", build: branch("refs/heads/main")},
		{Name: "head-id", Abuses: "the default branch is called like a commit", build: branch(nowhere)},
		{Name: "refs-replace", Abuses: "a replacement for a commit: the content does not match the ID", build: func(r *repo, _ Bait) {
			id := r.files(entry{mode: file, name: "a", content: "a\n"})
			evil := r.bytes("commit", fmt.Appendf(nil, "tree %s\nauthor a <a@b> 1 +0000\ncommitter a <a@b> 1 +0000\n\nevil\n", r.tree(entry{mode: file, name: "evil", content: "evil\n"})))
			r.ref("refs/replace/"+id, evil)
		}},
		{Name: "tag-nested", Abuses: "a tag of a tag, a thousand deep", build: func(r *repo, _ Bait) {
			id, kind := r.files(entry{mode: file, name: "a", content: "a\n"}), "commit"
			for i := range 1000 {
				id = r.bytes("tag", fmt.Appendf(nil, "object %s\ntype %s\ntag t%d\ntagger a <a@b> 1 +0000\n\nx\n", id, kind, i))
				kind = "tag"
			}
			r.ref("refs/tags/deep", id)
		}},
		{Name: "tag-blob", Abuses: "tags of a file and of a tree", build: func(r *repo, _ Bait) {
			r.files(entry{mode: file, name: "a", content: "a\n"})
			r.ref("refs/tags/blob", r.blob("a\n"))
			r.ref("refs/tags/tree", r.tree(entry{mode: file, name: "a", content: "a\n"}))
		}},
	}
	for i := range cases {
		cases[i].Need = Checkout
	}
	return cases
}

// Advert is a hostile answer to ls-refs, for gitserver.Advertise.
type Advert struct {
	Name   string
	Abuses string
	// Endless is set if the answer ends only when the client hangs up.
	Endless bool
	Refs    iter.Seq[gitserver.Ref]
}

// Adverts returns all adverts, for a repository whose branch main is at the commit id.
func Adverts(id string) []Advert {
	main := gitserver.Ref{ID: id, Name: "refs/heads/main"}
	head := func(target string) iter.Seq[gitserver.Ref] {
		return slices.Values([]gitserver.Ref{{ID: id, Name: "HEAD", Target: target}, main})
	}
	also := func(refs ...gitserver.Ref) iter.Seq[gitserver.Ref] {
		return slices.Values(append([]gitserver.Ref{{ID: id, Name: "HEAD", Target: main.Name}, main}, refs...))
	}
	names := func(names ...string) iter.Seq[gitserver.Ref] {
		var refs []gitserver.Ref
		for _, name := range names {
			refs = append(refs, gitserver.Ref{ID: id, Name: name})
		}
		return also(refs...)
	}
	return []Advert{
		{Name: "head-option", Abuses: "HEAD is a branch that is an option", Refs: head("refs/heads/--upload-pack=x")},
		{Name: "head-option-bare", Abuses: "HEAD is an option", Refs: head("--upload-pack=x")},
		{Name: "head-dotdot", Abuses: "HEAD is a path out of refs", Refs: head("refs/heads/../../config")},
		{Name: "head-absolute", Abuses: "HEAD is an absolute path", Refs: head("/etc/passwd")},
		{Name: "head-tag", Abuses: "HEAD is a tag", Refs: head("refs/tags/v1")},
		{Name: "head-nothing", Abuses: "HEAD is a branch without a name", Refs: head("refs/heads/")},
		{Name: "head-self", Abuses: "HEAD is itself", Refs: head("HEAD")},
		{Name: "head-missing", Abuses: "HEAD is a branch that does not exist", Refs: head("refs/heads/gone")},
		{Name: "head-newline", Abuses: "HEAD has a newline, for programs that write it into a file", Refs: head("refs/heads/main\n[core]\n\tfsmonitor=x")},
		{Name: "head-control", Abuses: "HEAD has control characters", Refs: head("refs/heads/\x1b[2J")},
		{Name: "head-long", Abuses: "HEAD is a branch with a name of 60,000 bytes", Refs: head("refs/heads/" + strings.Repeat("a", 60_000))},
		{Name: "head-twice", Abuses: "two HEADs", Refs: slices.Values([]gitserver.Ref{{ID: id, Name: "HEAD", Target: main.Name}, {ID: nowhere, Name: "HEAD", Target: "refs/heads/x"}, main})},
		{Name: "head-unborn", Abuses: "HEAD is unborn, and an option", Refs: slices.Values([]gitserver.Ref{{ID: "unborn", Name: "HEAD", Target: "refs/heads/--x"}, main})},
		{Name: "ref-dotdot", Abuses: "names that lead out of refs", Refs: names("refs/heads/../../x", "refs/../HEAD", "../../x", "/etc/x", "refs/heads/./x")},
		{Name: "ref-control", Abuses: "names with control characters", Refs: names("refs/heads/a\x01b", "refs/heads/\x1b[2J", "refs/heads/a\rb", "refs/heads/a\x7f")},
		{Name: "ref-newline", Abuses: "a name of two lines, for programs that write it into a file", Refs: names("refs/heads/a\nrefs/heads/b")},
		{Name: "ref-option", Abuses: "names that are options", Refs: names("refs/heads/--upload-pack=x", "refs/tags/-x", "--exec=x")},
		{Name: "ref-lock", Abuses: "a name that is another ref's lock", Refs: names("refs/heads/main.lock")},
		{Name: "ref-conflict", Abuses: "a name that is a directory of another", Refs: names("refs/heads/main/x", "refs/heads/a", "refs/heads/a/b")},
		{Name: "ref-twice", Abuses: "one name at two commits", Refs: also(gitserver.Ref{ID: nowhere, Name: main.Name})},
		{Name: "ref-foreign", Abuses: "names outside of refs", Refs: names("config", "FETCH_HEAD", "objects/info/alternates", "hooks/post-checkout")},
		{Name: "ref-peeled", Abuses: "a tag that claims another object behind it", Refs: also(gitserver.Ref{ID: id, Name: "refs/tags/v1", Peeled: nowhere})},
		{Name: "ref-nowhere", Abuses: "a branch at a commit that does not exist", Refs: also(gitserver.Ref{ID: nowhere, Name: "refs/heads/gone"})},
		{Name: "id-short", Abuses: "an id that is too short", Refs: also(gitserver.Ref{ID: id[:20], Name: "refs/heads/a"})},
		{Name: "id-option", Abuses: "an id that is an option", Refs: also(gitserver.Ref{ID: "--upload-pack=x", Name: "refs/heads/a"})},
		{Name: "id-null", Abuses: "the null id", Refs: also(gitserver.Ref{ID: strings.Repeat("0", 40), Name: "refs/heads/a"})},
		{Name: "refs-many", Abuses: "100,000 refs, asked for or not", Refs: gitserver.ManyRefs(id, 100_000)},
		{Name: "refs-endless", Abuses: "an endless answer", Endless: true, Refs: gitserver.ManyRefs(id, math.MaxInt)},
		{Name: "refs-none", Abuses: "no refs at all", Refs: slices.Values([]gitserver.Ref{})},
	}
}
