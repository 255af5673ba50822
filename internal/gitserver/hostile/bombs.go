package hostile

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"strconv"
)

// Bombs are repositories of few bytes that cost whoever uses them time, memory or names without end. They are not among
// Cases: some of them never end by themselves. Each takes a second or two to make.
func Bombs() []Case {
	return []Case{
		{Name: "many-names", Abuses: "3.1 million names in two trees: an index of 220 MB", Need: Checkout, build: func(r *repo, _ Bait) {
			r.commit(r.shared(2, 1761, r.blob("")))
		}},
		{Name: "endless-names", Abuses: "10^15 names in fifteen trees", Need: Checkout, build: func(r *repo, _ Bait) {
			r.commit(r.shared(15, 10, r.blob("boom\n")))
			r.write("config", "[core]\n\trepositoryformatversion = 0\n\tbare = true\n[uploadpack]\n\tallowFilter = true\n\tallowAnySHA1InWant = true\n")
		}},
		{Name: "attribute-files", Abuses: "3,000 directories that share a .gitattributes of 99 MiB", Need: Checkout, build: func(r *repo, _ Bait) {
			attributes := r.raw(entry{mode: file, name: ".gitattributes", id: r.zeros(99 << 20)}, entry{mode: file, name: "a", content: "a\n"})
			r.commit(r.names(3000, entry{mode: tree, id: attributes}))
		}},
		{Name: "deltas", Abuses: "a pack of 1.8 MiB that unpacks to 2 TiB", Need: Checkout, sends: bombPack, build: func(r *repo, _ Bait) {
			r.deltas(96<<20, 27_000)
		}},
		{Name: "whole-tree", Abuses: "a million files in three trees", Need: Checkout, build: func(r *repo, _ Bait) {
			r.commit(r.shared(3, 100, r.blob("")))
		}},
	}
}

// Bomb is one of Bombs; an unknown name panics.
func Bomb(name string) Case {
	for _, c := range Bombs() {
		if c.Name == name {
			return c
		}
	}
	panic("there is no bomb " + name)
}

// shared is a tree of so many levels, in each of which all names are one and the same tree; in the last they are the
// blob.
func (r *repo) shared(levels, width int, blob string) string {
	e := entry{mode: file, id: blob}
	for range levels {
		e = entry{mode: tree, id: r.names(width, e)}
	}
	return e.id
}

// names is a tree of one entry by many names, numbers of base 36 with as many digits as it takes.
func (r *repo) names(n int, e entry) string {
	digits := len(strconv.FormatInt(int64(n-1), 36))
	entries := make([]entry, n)
	for i := range entries {
		entries[i] = e
		entries[i].name = fmt.Sprintf("%0*s", digits, strconv.FormatInt(int64(i), 36))
	}
	return r.raw(entries...)
}

// bombPack is the file of a repository that is sent instead of its objects.
const bombPack = "bomb.pack"

// deltas writes a pack with a small commit, a blob of zeros, and so many others of the same size that are deltas, in
// chains of fifty as git itself makes them. Nothing refers to them: that is found out only when all are unpacked.
func (r *repo) deltas(size int64, n int) {
	p := newPacker(uint32(n) + 4)
	content := []byte("a\n")
	blob := r.bytes("blob", content)
	p.add(packBlob, int64(len(content)), bytes.NewReader(content))
	treeID := r.raw(entry{mode: file, name: "a", id: blob})
	sum, err := hex.DecodeString(blob)
	r.check(err)
	content = append([]byte(file+" a\x00"), sum...)
	p.add(packTree, int64(len(content)), bytes.NewReader(content))
	content = fmt.Appendf(nil, "tree %s\nauthor a <a@b> 1700000000 +0000\ncommitter a <a@b> 1700000000 +0000\n\nbegin\n", treeID)
	p.add(packCommit, int64(len(content)), bytes.NewReader(content))
	r.head = r.bytes("commit", content)
	r.ref("refs/heads/main", r.head)
	zeros := p.add(packBlob, size, io.LimitReader(zero{}, size))
	const chain = 50
	base := zeros
	for i := range n {
		if i%chain == 0 {
			base = zeros
		}
		base = p.delta(base, shifted(size, i))
	}
	r.write(bombPack, string(p.finish()))
}
