package hostile

// modulePathCases are submodules with a hostile name or path.
func modulePathCases() []Case {
	// at makes a repository with a submodule of that name and path, whose tree has hooks.
	at := func(name, path func(Bait) string, gitlink string, more ...entry) func(*repo, Bait) {
		return func(r *repo, b Bait) {
			sub := r.side("sub")
			id := sub.files(
				entry{mode: script, name: "post-checkout", content: hook(b)},
				entry{mode: script, name: "hooks/post-checkout", content: hook(b)})
			r.check(sub.err)
			entries := append([]entry{
				{mode: file, name: ".gitmodules", content: section(name(b), path(b), r.relative(sub))},
				{mode: gitl, name: gitlink, content: id},
			}, more...)
			r.files(entries...)
		}
	}
	is := func(s string) func(Bait) string { return func(Bait) string { return s } }

	cases := []Case{
		{
			Name: "module-symlink-case", Abuses: "a symlink that is a submodule's path where case does not count", CVE: "CVE-2024-32002",
			build: at(is("x/y"), is("A/modules/x"), "A/modules/x", entry{mode: link, name: "a", content: ".git"}),
		},
		{
			Name: "module-symlink-path", Abuses: "a submodule below a symlink to outside", CVE: "CVE-2024-32002",
			build: func(r *repo, b Bait) {
				at(is("sub"), is("link/sub"), "link/sub")(r, b)
				// The same name twice: a directory for the submodule, and the link that replaces
				// it.
				sub := r.tree(entry{mode: gitl, name: "sub", content: nowhere})
				r.commit(r.raw(
					entry{mode: file, name: ".gitmodules", content: section("sub", "link/sub", r.relative(r))},
					entry{mode: link, name: "link", content: b.Outside}, entry{mode: tree, name: "link", id: sub}))
			},
		},
		{
			Name: "module-carriage-return", Abuses: "a path ending in a carriage return, which git's configuration loses", CVE: "CVE-2025-48384",
			build: at(is("sub"), is("sub\r"), "sub\r", entry{mode: link, name: "sub", content: ".git/modules/sub/hooks"}),
		},
		{
			Name: "module-name-dotdot", Abuses: "a name that leads out of .git/modules", CVE: "CVE-2018-11235",
			build: at(is("../../evil"), is("sub"), "sub",
				entry{mode: file, name: "evil/HEAD", content: "ref: refs/heads/main\n"},
				entry{mode: file, name: "evil/config", content: "[core]\n\trepositoryformatversion = 0\n"},
				entry{mode: file, name: "evil/objects/keep"}, entry{mode: file, name: "evil/refs/keep"}),
		},
		{
			Name: "module-name-nested", Abuses: "a name inside another submodule's repository", CVE: "CVE-2019-1387",
			build: func(r *repo, b Bait) {
				sub := r.side("sub")
				id := sub.files(entry{mode: script, name: "post-checkout", content: hook(b)})
				r.check(sub.err)
				r.files(
					entry{mode: file, name: ".gitmodules", content: section("hippo", "hippo", r.relative(sub)) + section("hippo/hooks", "hooks", r.relative(sub))},
					entry{mode: gitl, name: "hippo", content: id}, entry{mode: gitl, name: "hooks", content: id})
			},
		},
		{Name: "module-path-option", Abuses: "a path that is an option", CVE: "CVE-2018-17456", build: at(is("sub"), is("--template=hooks"), "--template=hooks")},
		{Name: "module-path-dotdot", Abuses: "a path out of the tree", build: at(is("sub"), is("../outside"), "sub")},
		{Name: "module-path-absolute", Abuses: "an absolute path", build: at(is("sub"), func(b Bait) string { return b.Outside }, "sub")},
		{Name: "module-path-git", Abuses: "a path in .git", build: at(is("sub"), is(".git/hooks"), ".git/hooks")},
		{Name: "module-path-git-backslash", Abuses: "a path in .git with the separator of another system", CVE: "CVE-2019-1353", build: at(is("sub"), is(`.git\hooks`), `.git\hooks`)},
		{Name: "module-path-newline", Abuses: "a path with a newline that goes on as a setting", build: at(is("sub"), is("sub\n[core]\n\tfsmonitor=x"), "sub\n[core]\n\tfsmonitor=x")},
		{Name: "module-path-hdcache", Abuses: "a submodule at the place of the cache", build: at(is("sub"), is(".hdcache"), ".hdcache")},
	}
	for i := range cases {
		cases[i].Need = Submodules
	}
	return cases
}
