package hostile

import "strings"

// dotGitCases are trees with something that is, or may be mistaken for, a repository.
func dotGitCases() []Case {
	// planted makes a tree with a hook in a directory that some system takes for .git.
	planted := func(dir string) func(*repo, Bait) {
		return func(r *repo, b Bait) {
			r.files(entry{mode: script, name: dir + "/hooks/post-checkout", content: hook(b)},
				entry{mode: file, name: dir + "/config", content: "[core]\n\tfsmonitor = " + value(b.command()) + "\n"})
		}
	}
	// embedded makes a tree with a bare repository whose settings name a command.
	embedded := func(prefix string) func(*repo, Bait) {
		return func(r *repo, b Bait) {
			r.files(
				entry{mode: file, name: prefix + "HEAD", content: "ref: refs/heads/main\n"},
				entry{mode: file, name: prefix + "config", content: "[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = .\n" +
					"\tfsmonitor = " + value(b.command()+"; false") + "\n"},
				entry{mode: file, name: prefix + "objects/keep"}, entry{mode: file, name: prefix + "refs/keep"})
		}
	}
	cases := []Case{
		{Name: "dotgit-directory", Abuses: "a tracked directory .git", Effect: Fails, Control: plain, build: planted(".git")},
		{Name: "dotgit-upper", Abuses: "a tracked .GIT, the same where case does not count", CVE: "CVE-2014-9390", build: planted(".GIT")},
		{Name: "dotgit-short", Abuses: "a tracked git~1, the short name on NTFS", CVE: "CVE-2019-1353", build: planted("git~1")},
		{Name: "dotgit-ignorable", Abuses: "a tracked .git with an ignorable character, the same on HFS+", CVE: "CVE-2014-9390", build: planted(".g\u200cit")},
		{Name: "dotgit-stream", Abuses: "a tracked .git::$INDEX_ALLOCATION, the same on NTFS", CVE: "CVE-2019-1352", build: planted(".git::$INDEX_ALLOCATION")},
		{Name: "dotgit-blank", Abuses: "a tracked .git with a blank at the end, lost on NTFS", CVE: "CVE-2014-9390", build: planted(".git ")},
		{Name: "dotgit-dot", Abuses: "a tracked .git with a dot at the end, lost on NTFS", CVE: "CVE-2014-9390", build: planted(".git.")},
		{Name: "dotgit-backslash", Abuses: "a name with backslashes that leads into .git elsewhere", CVE: "CVE-2019-1354", build: func(r *repo, b Bait) {
			r.files(entry{mode: script, name: `.git\hooks\post-checkout`, content: hook(b)})
		}},
		{Name: "dotgit-nested", Abuses: "a .git in a directory below", Effect: Fails, Control: plain, build: planted("sub/.git")},
		{Name: "dotgit-file", Abuses: "a tracked .git that points to another repository", Effect: Fails, Control: plain, build: func(r *repo, b Bait) {
			r.files(entry{mode: file, name: ".git", content: "gitdir: " + b.Outside + "\n"})
		}},
		{Name: "dotgit-link", Abuses: "a tracked .git that is a symlink to outside", Effect: Fails, Control: plain, build: func(r *repo, b Bait) {
			r.files(entry{mode: link, name: ".git", content: b.Outside})
		}},
		{Name: "dotgit-json", Abuses: "a tracked .git/helmdeck.json, which is read by containers", Effect: Fails, Control: plain, build: func(r *repo, _ Bait) {
			r.files(entry{mode: file, name: ".git/helmdeck.json", content: `{"reused":true}`})
		}},
		{Name: "bare-inside", Abuses: "a bare repository as part of the tree: git in that directory runs its fsmonitor",
			Effect: Runs, Control: plain + `; cd w/inside && git status`, build: embedded("inside/")},
		{Name: "bare-root", Abuses: "the tree itself looks like a bare repository when .git is out of sight",
			Effect: Runs, Control: plain + `; rm -rf w/.git; cd w && git status`, build: embedded("")},
		{Name: "bare-hooks", Abuses: "a bare repository as part of the tree, with hooks, for programs that run git in a directory chosen by the user", CVE: "CVE-2024-10220",
			Effect: Runs, Control: plain + `; cd w/inside && git read-tree --empty`, build: func(r *repo, b Bait) {
				r.files(
					entry{mode: file, name: "inside/HEAD", content: "ref: refs/heads/main\n"},
					entry{mode: file, name: "inside/config", content: "[core]\n\trepositoryformatversion = 0\n\tbare = true\n"},
					entry{mode: script, name: "inside/hooks/post-index-change", content: hook(b)},
					entry{mode: script, name: "inside/hooks/post-checkout", content: hook(b)},
					entry{mode: file, name: "inside/objects/keep"}, entry{mode: file, name: "inside/refs/keep"})
			}},
		{Name: "hooks-directory", Abuses: "hooks in the tree, for users with core.hooksPath set",
			Effect: Runs, Control: `git -c core.hooksPath=.githooks clone -q "$REPO" w`, build: func(r *repo, b Bait) {
				var entries []entry
				for _, name := range strings.Fields("post-checkout reference-transaction post-merge pre-commit fsmonitor-watchman post-index-change") {
					entries = append(entries, entry{mode: script, name: ".githooks/" + name, content: hook(b)}, entry{mode: script, name: "hooks/" + name, content: hook(b)})
				}
				r.files(entries...)
			}},
		{Name: "config-tracked", Abuses: "settings in the tree, for users who include them or use the tree as home",
			Effect: Runs, Control: plain + `; cd w && HOME=$PWD GIT_CONFIG_GLOBAL= && unset GIT_CONFIG_GLOBAL && export HOME && git status`, build: func(r *repo, b Bait) {
				settings := "[core]\n\tfsmonitor = " + value(b.command()+"; false") + "\n[alias]\n\tst = " + value("!"+b.command()) + "\n"
				r.files(entry{mode: file, name: ".gitconfig", content: settings}, entry{mode: file, name: ".config/git/config", content: settings})
			}},
	}
	for i := range cases {
		cases[i].Need = Checkout
	}
	return cases
}

const plain = `git clone -q "$REPO" w`
