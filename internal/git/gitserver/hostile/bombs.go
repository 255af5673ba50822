package hostile

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"strconv"
)

// Bombs returns small repositories that cost a client excessive time, memory or files. They are not
// among Cases, because some of them never end by themselves. Each takes a second or two to make.
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

// Bomb returns one of Bombs; it panics if the name is unknown.
func Bomb(name string) Case {
	for _, c := range Bombs() {
		if c.Name == name {
			return c
		}
	}
	panic("unknown bomb " + name)
}

// shared returns a tree with that many levels. All names of a level are the same tree; those of the
// last level are the blob.
func (r *repo) shared(levels, width int, blob string) string {
	e := entry{mode: file, id: blob}
	for range levels {
		e = entry{mode: tree, id: r.names(width, e)}
	}
	return e.id
}

// names returns a tree with one entry under many names: numbers in base 36.
func (r *repo) names(n int, e entry) string {
	digits := len(strconv.FormatInt(int64(n-1), 36))
	entries := make([]entry, n)
	for i := range entries {
		entries[i] = e
		entries[i].name = fmt.Sprintf("%0*s", digits, strconv.FormatInt(int64(i), 36))
	}
	return r.raw(entries...)
}

// bombPack is the file in a repository that is sent instead of its objects.
const bombPack = "bomb.pack"

// deltas writes a pack with a small commit, a blob of zeros, and n deltas of the same size, in
// chains of fifty as git makes them. Nothing refers to these, but a client detects that only after
// unpacking all.
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
	p.chains(size, n, 50)
	r.write(bombPack, string(p.finish()))
}

// Deltas returns a pack of a blob of zeros and n deltas, each of which makes size bytes, in chains of
// the given length.
func Deltas(size int64, n, chain int) []byte {
	p := newPacker(uint32(n) + 1)
	p.chains(size, n, chain)
	return p.finish()
}
