package git

import "testing"

// BenchmarkQuestion is what a warm Mount asks of a remote on loopback.
func BenchmarkQuestion(b *testing.B) {
	g, r := newGit(b), Remote{URL: remote(b).URL("r")}
	for b.Loop() {
		if _, err := g.LsRefs(b.Context(), r, "refs/heads/main"); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkSpawn is the least that a run of git takes.
func BenchmarkSpawn(b *testing.B) {
	g := newGit(b)
	for b.Loop() {
		if _, err := g.Run(b.Context(), Command{Op: "try", Args: []string{"version"}, Dir: "/", UID: g.uid, GID: g.gid}); err != nil {
			b.Fatal(err)
		}
	}
}
