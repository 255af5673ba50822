package hostile

import "fmt"

// treeCases are malformed objects, and small downloads with large trees.
func treeCases() []Case {
	// of makes a tree of raw entries and a valid one.
	of := func(entries ...entry) func(*repo, Bait) {
		return func(r *repo, _ Bait) {
			r.commit(r.raw(append(entries, entry{mode: file, name: "zzz", content: "z\n"})...))
		}
	}
	a := func(mode string) entry { return entry{mode: mode, name: "a", content: "a\n"} }
	cases := []Case{
		{Name: "tree-duplicate", Abuses: "two entries of one name", build: of(a(file), entry{mode: file, name: "a", content: "b\n"})},
		{Name: "tree-unsorted", Abuses: "entries out of order: a search for a name may miss it", build: of(entry{mode: file, name: "b", content: "b\n"}, a(file))},
		{Name: "tree-null", Abuses: "an entry of the null id", Unwalkable: true, Effect: Fails, Control: plain,
			build: of(entry{mode: file, name: "a", id: "0000000000000000000000000000000000000000"})},
		{Name: "tree-missing", Abuses: "an entry of an object that does not exist", Unwalkable: true, Effect: Fails, Control: plain, build: of(entry{mode: file, name: "a", id: nowhere})},
		{Name: "tree-setuid", Abuses: "an entry with the setuid bit", build: of(a("104755"))},
		{Name: "tree-world", Abuses: "a world-writable entry", build: of(a("100666"))},
		{Name: "tree-device", Abuses: "an entry that is a character device", build: of(a("20000"))},
		{Name: "tree-fifo", Abuses: "an entry that is a FIFO", build: of(a("10000"))},
		{Name: "tree-mode", Abuses: "a mode that is not a number", Unwalkable: true, Effect: Fails, Control: plain, build: of(a("9x"))},
		{Name: "tree-kind", Abuses: "an entry with the mode of a directory that is a file", Unwalkable: true, Effect: Fails, Control: plain, build: of(a(tree))},
		{Name: "tree-cut", Abuses: "a tree that ends in the middle of an entry", Unwalkable: true, Effect: Fails, Control: plain, build: func(r *repo, _ Bait) {
			r.commit(r.bytes("tree", []byte("100644 a\x00short")))
		}},
		{Name: "tree-wide", Abuses: "a directory of 100,000 files", build: func(r *repo, _ Bait) {
			id := r.blob("a\n")
			entries := make([]entry, 100_000)
			for i := range entries {
				entries[i] = entry{mode: file, name: fmt.Sprintf("wide/%06d", i), id: id}
			}
			r.files(entries...)
		}},
		{Name: "tree-bomb", Abuses: "ten trees of ten entries each, ten billion files", build: func(r *repo, _ Bait) {
			id := r.blob("boom\n")
			mode := file
			for range 10 {
				var entries []entry
				for i := range 10 {
					entries = append(entries, entry{mode: mode, name: fmt.Sprintf("d%d", i), id: id})
				}
				id, mode = r.raw(entries...), tree
			}
			r.commit(id)
		}},
		{Name: "blob-bomb", Abuses: "a file of 100 MiB from 100 KiB", build: func(r *repo, _ Bait) {
			r.files(entry{mode: file, name: "zeros", id: r.zeros(100 << 20)})
		}},
		{Name: "blob-bombs", Abuses: "a thousand names for a file of 100 MiB: 100 GiB from 100 KiB", build: func(r *repo, _ Bait) {
			id := r.zeros(100 << 20)
			entries := make([]entry, 1000)
			for i := range entries {
				entries[i] = entry{mode: file, name: fmt.Sprintf("%04d", i), id: id}
			}
			r.files(entries...)
		}},
		{Name: "commit-control", Abuses: "control characters in author and message, for terminals and logs", build: func(r *repo, _ Bait) {
			r.commitAs(r.tree(a(file)), "\x1b[2J\x1b]0;t\a <a\rb@c> 1700000000 +0000", "\x1b[31m$(id)\n")
		}},
		{Name: "commit-time", Abuses: "a time that overflows", build: func(r *repo, _ Bait) {
			r.commitAs(r.tree(a(file)), "a <a@b> 99999999999999999999 +9999", "begin\n")
		}},
		{Name: "commit-message", Abuses: "a message of 10 MiB", build: func(r *repo, _ Bait) {
			r.commitAs(r.tree(a(file)), "a <a@b> 1700000000 +0000", string(make([]byte, 10<<20)))
		}},
		{Name: "commit-no-tree", Abuses: "a commit without a tree", Unwalkable: true, Effect: Fails, Control: plain, build: func(r *repo, _ Bait) {
			r.head = r.bytes("commit", []byte("author a <a@b> 1 +0000\ncommitter a <a@b> 1 +0000\n\nbegin\n"))
			r.ref("refs/heads/main", r.head)
		}},
	}
	for i := range cases {
		cases[i].Need = Checkout
	}
	return cases
}
