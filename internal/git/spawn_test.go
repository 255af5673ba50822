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
		if _, err := g.run(b.Context(), command{op: "try", args: []string{"version"}, dir: "/", uid: g.uid, gid: g.gid}); err != nil {
			b.Fatal(err)
		}
	}
}
