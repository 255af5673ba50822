package git

import "testing"

// BenchmarkQuestion measures the question of a warm Mount to a remote on loopback.
func BenchmarkQuestion(b *testing.B) {
	g, r := newGit(b), Remote{URL: remote(b).URL("r")}
	for b.Loop() {
		if _, err := g.LsRefs(b.Context(), r, "refs/heads/main"); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkSpawn measures the least time that a run of git takes.
func BenchmarkSpawn(b *testing.B) {
	g := newGit(b)
	for b.Loop() {
		if _, err := g.Run(b.Context(), Command{Op: "try", Args: []string{"version"}, Dir: "/", UID: g.config.UID, GID: g.config.GID}); err != nil {
			b.Fatal(err)
		}
	}
}
