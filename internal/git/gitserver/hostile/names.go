package hostile

import (
	"fmt"
	"strings"
)

// nameCases are trees with names that break careless programs.
func nameCases() []Case {
	named := func(names ...string) func(*repo, Bait) {
		return func(r *repo, _ Bait) {
			var entries []entry
			for i, name := range names {
				entries = append(entries, entry{mode: file, name: name, content: fmt.Sprintln(i)})
			}
			r.files(entries...)
		}
	}
	// one makes a tree with an invalid name and a valid one.
	one := func(name string) func(*repo, Bait) {
		return func(r *repo, b Bait) {
			if strings.HasPrefix(name, "/") {
				name = b.Outside + "/new"
			}
			r.commit(r.raw(entry{mode: file, name: name, content: "x\n"}, entry{mode: file, name: "zzz", content: "z\n"}))
		}
	}
	deep := func(levels int) func(*repo, Bait) {
		return func(r *repo, _ Bait) {
			id := r.tree(entry{mode: file, name: "a", content: "a\n"})
			for range levels {
				id = r.raw(entry{mode: tree, name: "d", id: id})
			}
			r.commit(id)
		}
	}
	cases := []Case{
		{Name: "name-newline", Abuses: "names with newlines, tabs and quotes, for programs that read git's output by line", build: named("a\nb", "a\tb", `a"b`, `a\b`, "\n", "a\n/etc/passwd")},
		{Name: "name-control", Abuses: "names with control characters, for terminals and logs", build: named("\x1b[2Jgone", "\x1b]0;t\a", "a\rb", "\x7f", "\u202egpj.exe")},
		{Name: "name-option", Abuses: "names that are options", build: named("--help", "-rf", "--upload-pack=x", "-", "--", "@", "@-")},
		{Name: "name-pathspec", Abuses: "names that are patterns and magic", build: named("*", "[a]", ":(top)a", ":!a", "a?b")},
		{Name: "name-shell", Abuses: "names that a shell would run", build: named("$(id)", ";id", "|id", "`id`", "&", "a b", "'", "~root", "%s%n")},
		{Name: "name-invalid", Abuses: "names that are not UTF-8", build: named("\xff\xfe", "a\x80b", "\xc0\xaf..", "\xed\xa0\x80")},
		{Name: "name-long", Abuses: "a name of 255 bytes", build: named(strings.Repeat("n", 255))},
		{Name: "name-too-long", Abuses: "a name of 4,000 bytes, which no file system takes", Effect: Fails, Control: plain, build: named(strings.Repeat("n", 4000))},
		{Name: "name-case", Abuses: "names that are one where case does not count", build: named("README", "readme", "Readme", "dir/a", "DIR/a")},
		{Name: "name-normal", Abuses: "names that are one when normalized", build: named("\u00e9", "e\u0301", "\u212b", "\u00c5")},
		{Name: "name-reserved", Abuses: "names that are devices elsewhere", build: named("CON", "aux.txt", "nul", "a:b", "a.", "a ")},
		{Name: "name-whiteout", Abuses: "names that other layered file systems take for a deletion", build: named(".wh.a", ".wh..wh..opq", "a")},
		{Name: "deep-path", Abuses: "a path longer than any system call takes", Effect: Fails, Control: plain, build: deep(3000)},
		{Name: "deep-tree", Abuses: "ten thousand levels of directories", Effect: Fails, Control: plain, build: deep(10_000)},
		{Name: "name-slash", Abuses: "a name with a slash: a file where there is no directory", build: one("a/b")},
		{Name: "name-slash-up", Abuses: "a name that is a path out of the tree", Effect: Fails, Control: plain, build: one("../up")},
		{Name: "name-absolute", Abuses: "a name that is an absolute path", Effect: Fails, Control: plain, build: one("/")},
		{Name: "name-slash-git", Abuses: "a name that is a path into .git", Effect: Fails, Control: plain, build: one(".git/hooks/post-checkout")},
		{Name: "name-dot", Abuses: "an entry .", Effect: Fails, Control: plain, build: one(".")},
		{Name: "name-dotdot", Abuses: "an entry ..", Effect: Fails, Control: plain, build: one("..")},
		{Name: "name-empty", Abuses: "an entry without a name", Unwalkable: true, Effect: Fails, Control: plain, build: one("")},
	}
	for i := range cases {
		cases[i].Need = Checkout
	}
	return cases
}
